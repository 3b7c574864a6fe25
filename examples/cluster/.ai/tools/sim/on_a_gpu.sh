# /// rye
# executor_id: bash_runtime
# description: Say on which machine it runs, which has an A100.
# workspace: none
# placement: {labels: {accel: a100}, required: true}
# permissions: {}
# ///
echo '{"machine": "'"$(basename "$HOME")"'"}'
