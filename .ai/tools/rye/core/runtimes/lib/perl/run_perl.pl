# Runs a tool: `run_perl.pl TOOL`, with the parameters on standard input.
# Runs a program: `run_perl.pl TOOL -- ARGUMENT…`, as `perl TOOL ARGUMENT…` does.
#
# When the tool defines a sub `execute`, that is called with the parameters, and what it returns is written as
# JSON to the descriptor that RYE_RESULT_FD names, else to standard output. Without that sub the tool is a script:
# it has been run by then, and standard input was left to it. What it dies of is shown on standard error, and the
# exit code is 1. It is run in RYE_WORKING_DIRECTORY, when that is set.
#
# By hand: echo '{"name": "Ada"}' | perl run_perl.pl "$PWD/greet.pl"

$0 = shift @ARGV;
if (my $directory = $ENV{RYE_WORKING_DIRECTORY}) {
    chdir $directory or fail("expected to get into $directory: $!\n");
}
if (@ARGV && shift eq '--') {
    exec {$^X} $^X, $0, @ARGV or fail("expected to start $^X: $!\n");
}
do $0;
fail($@) if $@;
exit 0 unless defined &execute;

require JSON::PP;
eval {
    my $json = JSON::PP->new->utf8->allow_nonref->canonical->max_depth(100_000);
    my $given = do { local $/; <STDIN> };
    my $document = $json->encode(scalar execute(length $given ? $json->decode($given) : {}));
    my $descriptor = $ENV{RYE_RESULT_FD} || 1;
    local $| = 1;
    open my $result, '>&=', $descriptor or die "expected a descriptor in RYE_RESULT_FD, found $descriptor: $!\n";
    print {$result} $document, $descriptor == 1 ? "\n" : "";
    1;
} or fail($@);

sub fail {
    my ($error) = @_;
    utf8::encode($error) if utf8::is_utf8($error);
    print STDERR $error;
    exit 1;
}
