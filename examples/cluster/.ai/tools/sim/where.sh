# /// rye
# executor_id: bash_runtime
# description: Say on which machine it runs.
# workspace: none
# permissions: {}
# ///
echo '{"machine": "'"$(basename "$HOME")"'"}'
