//! The steps of cells, without making any.

use super::*;

fn told(layout: &Layout) -> Vec<String> {
    let tell = |step: &Step| {
        let text = |path: &CString| path.to_string_lossy().into_owned();
        Some(match step {
            Step::Bind(bind) if bind.kind == Kind::Device => return None,
            Step::Bind(bind) => format!("{:?} {}", bind.kind, text(&bind.path)),
            Step::Mask { path, .. } => format!("mask {}", text(path)),
            Step::MaskSystem { at, .. } => format!("mask {}", text(at)),
            Step::Directory { path, .. } => format!("directory {}", text(path)),
            Step::Shut | Step::Attributes(_) => return None,
            Step::System { source, .. } => format!("System {}", &text(source)[1..]),
            Step::File { .. } | Step::Link { .. } => return None,
        })
    };
    layout.steps.iter().filter_map(tell).collect()
}

fn policy(read: &[&str], write: &[&str], home: &str) -> Policy {
    let texts = |paths: &[&str]| paths.iter().map(|path| (*path).into()).collect();
    Policy { read: texts(read), write: texts(write), home: Some(home.into()), ..Policy::default() }
}

fn layout(policy: &Policy) -> Vec<String> {
    let written: Vec<Place> =
        policy.write.iter().map(|path| Place::granted(path).expect("is there")).collect();
    told(&Layout::of(policy, &written, &[]).expect("all is there"))
}

#[test]
fn parents_come_before_what_stands_on_them_and_superfluous_grants_do_nothing() {
    let root = std::env::temp_dir().join(format!("lilux-layout-{}", std::process::id()));
    std::fs::create_dir_all(root.join("home/project/.git")).expect("is made");
    let root = std::fs::canonicalize(root).expect("is there");
    let path = |name: &str| root.join(name).to_str().expect("is UTF-8").to_owned();
    let (home, project, git) = (path("home"), path("home/project"), path("home/project/.git"));
    let mut wanted = policy(&["/usr/bin", &git], &[&project], &home);
    wanted.protect = vec![git.as_str().into(), path("home/project/.missing").as_str().into()];
    wanted.mask = vec!["/etc/passwd".into(), "/nowhere".into()];
    let steps = layout(&wanted);
    let from =
        steps.iter().position(|step| *step == format!("directory {}", &home[1..])).expect("has a home");
    let expected = [
        format!("directory {}", &home[1..]),
        format!("directory {}", &project[1..]),
        format!("Write {}", &project[1..]),
        format!("Read {}", &git[1..]),
        "directory dev/.empty".to_owned(),
        "directory dev/.empty/directory".to_owned(),
        "mask etc/passwd".to_owned(),
    ];
    assert_eq!(steps[from..], expected);
    assert!(!steps.contains(&"Read usr/bin".to_owned()), "it is shown with /usr");
    std::fs::remove_dir_all(&root).expect("is removed");
}

#[test]
fn what_is_made_above_a_place_is_its_owners_alone() {
    let mut wanted = policy(&[], &[], "/home/ada");
    let target = "/home/ada/.local/state/cache".into();
    wanted.binds = vec![crate::policy::Bind { source: "/usr/bin".into(), target, write: true }];
    let layout = Layout::of(&wanted, &[], &[]).expect("all is there");
    let modes = layout.steps.iter().filter_map(|step| match step {
        Step::Directory { path, mode, .. } => Some((path.to_str().ok()?, *mode)),
        _ => None,
    });
    let modes: BTreeMap<_, _> = modes.collect();
    assert_eq!((modes["home"], modes["home/ada"]), (0o700, 0o700));
    assert_eq!((modes["home/ada/.local"], modes["home/ada/.local/state"]), (0o700, 0o700));
}

#[test]
fn a_home_that_is_shown_cannot_be_private() {
    let wanted = policy(&[], &[], "/usr/lib");
    assert_eq!(Layout::of(&wanted, &[], &[]).expect_err("is refused").code, "policy_path");
}

#[test]
fn what_is_bound_above_a_grant_comes_before_it_and_does_not_hide_it() {
    let root = std::env::temp_dir().join(format!("lilux-layout-above-{}", std::process::id()));
    std::fs::create_dir_all(root.join("above/project/.git")).expect("is made");
    std::fs::create_dir_all(root.join("kept")).expect("is made");
    let root = std::fs::canonicalize(root).expect("is there");
    let path = |name: &str| root.join(name).to_str().expect("is UTF-8").to_owned();
    let (above, project, git) = (path("above"), path("above/project"), path("above/project/.git"));
    let mut wanted = policy(&[], &[&project], &path("above/home"));
    wanted.protect = vec![git.as_str().into()];
    let source = path("kept").as_str().into();
    wanted.binds = vec![crate::policy::Bind { source, target: above.as_str().into(), write: true }];
    let steps = layout(&wanted);
    let from = steps.iter().position(|step| *step == format!("Write {}", &above[1..])).expect("is bound");
    let expected = [
        format!("Write {}", &above[1..]),
        format!("directory {}", &path("above/home")[1..]),
        format!("directory {}", &project[1..]),
        format!("Write {}", &project[1..]),
        format!("Read {}", &git[1..]),
    ];
    assert_eq!(steps[from..], expected);
    std::fs::remove_dir_all(&root).expect("is removed");
}
