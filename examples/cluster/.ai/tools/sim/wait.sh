# /// rye
# executor_id: bash_runtime
# description: Wait for an hour, on a machine with an A100.
# workspace: none
# placement: {labels: {accel: a100}, required: true}
# permissions: {}
# ///
exec -a waits-for-an-hour sleep 3600
