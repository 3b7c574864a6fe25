# Runs a tool: `run_ruby.rb TOOL`, with the parameters on standard input.
# Runs a program: `run_ruby.rb TOOL -- ARGUMENT…`, as `ruby TOOL ARGUMENT…` does.
#
# When the tool defines a method `execute`, that is called with the parameters, and what it returns is written as
# JSON to the descriptor that RYE_RESULT_FD names, else to standard output. Without that method the tool is a
# script: it has been run by then, and standard input was left to it. What is raised is shown on standard error,
# and the exit code is 1. It is run in RYE_WORKING_DIRECTORY, when that is set.
#
# By hand: echo '{"name": "Ada"}' | ruby -EUTF-8 run_ruby.rb greet.rb

$PROGRAM_NAME = File.expand_path(ARGV.shift)
begin
  Dir.chdir(ENV["RYE_WORKING_DIRECTORY"]) unless ENV["RYE_WORKING_DIRECTORY"].to_s.empty?
  exec(RbConfig.ruby, "-EUTF-8", $PROGRAM_NAME, *ARGV) if ARGV.shift == "--"
  load $PROGRAM_NAME
  if respond_to?(:execute, true)
    require "json"
    given = $stdin.read
    result = execute(given.empty? ? {} : JSON.parse(given, max_nesting: false))
    document = JSON.generate(result, max_nesting: 0)
    $stdout.flush
    descriptor = ENV["RYE_RESULT_FD"].to_s
    descriptor.empty? ? puts(document) : IO.new(descriptor.to_i, "w", autoclose: false).write(document)
  end
rescue StandardError, ScriptError => error
  frames = error.backtrace.to_a.reject { |line| line.start_with?("#{__FILE__}:") }
  error.set_backtrace(frames)
  abort frames.empty? ? "#{error.message} (#{error.class})" : error.full_message(highlight: false, order: :top)
end
