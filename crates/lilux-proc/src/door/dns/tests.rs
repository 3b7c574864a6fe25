//! What is answered, and what is dropped.

use super::*;

/// A question for `api.example.com`, type A, with recursion desired.
const PLAIN: &[u8] =
    b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03api\x07example\x03com\x00\x00\x01\x00\x01";

fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut packet = PLAIN.to_vec();
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet
}

fn question(name: &[u8]) -> Vec<u8> {
    [&PLAIN[..HEADER], name, b"\x00\x01\x00\x01"].concat()
}

fn name_of(packet: &[u8]) -> Option<String> {
    parse(packet).expect("a question").name
}

#[test]
fn an_address_is_answered_under_the_same_id_and_the_same_spelling() {
    let packet = changed(13, b"ApI");
    let question = parse(&packet).expect("a question");
    assert_eq!((question.name.as_deref(), question.kind), (Some("api.example.com"), A));
    let said = answer(&question, Answer::Address(Ipv4Addr::new(198, 18, 0, 7)));
    let expected =
        b"\xab\xcd\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00\x03ApI\x07example\x03com\x00\x00\x01\x00\x01\
        \xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04\xc6\x12\x00\x07";
    assert_eq!(said, expected);
}

#[test]
fn other_answers_have_a_code_and_no_record() {
    let question = parse(PLAIN).expect("a question");
    for (said, code) in [(Answer::Nothing, 0), (Answer::Failure, 2), (Answer::NoSuchName, 3)] {
        let packet = answer(&question, said);
        assert_eq!((packet[3] & 0x0f, packet[7], packet.len()), (code, 0, PLAIN.len()));
    }
}

#[test]
fn what_follows_the_question_is_ignored_if_it_was_announced() {
    let edns = b"\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";
    let announced = [&changed(10, b"\x00\x01"), &edns[..]].concat();
    let said = answer(&parse(&announced).expect("a question"), Answer::Nothing);
    assert_eq!(&said[4..HEADER], b"\x00\x01\x00\x00\x00\x00\x00\x00");
    assert_eq!(parse(&[PLAIN, edns].concat()), None);
}

#[test]
fn names_that_no_host_can_have_are_no_names() {
    assert_eq!(name_of(&question(b"\x00")), None);
    assert_eq!(name_of(&question(b"\x03a b\x03com\x00")), None);
    assert_eq!(name_of(&question(b"\x04\xc3\xa4bc\x03com\x00")), None);
    assert_eq!(name_of(&question(b"\x04a\x00bc\x03com\x00")), None);
    assert_eq!(name_of(&question(b"\x09localhost\x00")).as_deref(), Some("localhost"));
}

#[test]
fn malformed_packets_are_dropped() {
    let long_name = [b"\x3f".as_slice(), &[b'a'; 63]].concat().repeat(4);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("a header alone", PLAIN[..HEADER].to_vec()),
        ("an answer", changed(2, b"\x81")),
        ("another opcode", changed(2, b"\x09")),
        ("a notification", changed(2, b"\x21")),
        ("no question", changed(4, b"\x00\x00")),
        ("two questions", changed(4, b"\x00\x02")),
        ("256 questions", changed(4, b"\x01\x00")),
        ("an answer beside the question", changed(6, b"\x00\x01")),
        ("an authority beside the question", changed(8, b"\x00\x01")),
        ("another class", changed(PLAIN.len() - 1, b"\x03")),
        ("a pointer", question(b"\xc0\x0c")),
        ("a pointer after a label", question(b"\x03api\xc0\x0c")),
        ("a pointer to itself", question(b"\xc0\x0d\x00")),
        ("an extended label", question(b"\x41a\x00")),
        ("a reserved label", question(b"\x81a\x00")),
        ("a label with a dot", question(b"\x0bexample.com\x00")),
        ("a label beyond the end", question(b"\x3fapi")),
        ("a name without an end", [&PLAIN[..HEADER], b"\x03api"].concat()),
        ("a name of 256 bytes", question(&[&long_name[..], b"\x00"].concat())),
        ("half a type", [&PLAIN[..HEADER], b"\x03api\x00\x00"].concat()),
        ("no class", [&PLAIN[..HEADER], b"\x03api\x00\x00\x01"].concat()),
        ("bytes after the end", [PLAIN, b"\x00"].concat()),
        ("a huge packet", [&changed(10, b"\x00\x01")[..], &[0; MAX_PACKET]].concat()),
    ];
    for (what, packet) in cases {
        assert_eq!(parse(&packet), None, "{what}");
    }
}

#[test]
fn every_beginning_is_dropped_and_no_changed_byte_is_dangerous() {
    for end in 0..PLAIN.len() {
        assert_eq!(parse(&PLAIN[..end]), None, "{end} bytes");
    }
    for at in 0..PLAIN.len() {
        for byte in 0..=u8::MAX {
            let packet = changed(at, &[byte]);
            let Some(question) = parse(&packet) else { continue };
            let said = answer(&question, Answer::Address(Ipv4Addr::LOCALHOST));
            assert_eq!((&said[..2], said.len()), (&packet[..2], PLAIN.len() + 16), "byte {at} as {byte}");
        }
    }
}
