# Runs a script: `run_bash.sh TOOL ARGUMENT…`, in RYE_WORKING_DIRECTORY, when that is set.
#
# By hand: echo '{"name": "Ada"}' | bash -p run_bash.sh "$PWD/greet.sh"

if [[ -n ${RYE_WORKING_DIRECTORY-} ]]; then
  cd -- "$RYE_WORKING_DIRECTORY" || exit 1
fi
exec "$BASH" -p "$@"
