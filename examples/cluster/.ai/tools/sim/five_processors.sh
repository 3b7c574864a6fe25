# /// rye
# executor_id: bash_runtime
# description: Ask for more processors than a node has.
# workspace: none
# resources: {cpu: 5}
# permissions: {}
# ///
echo "nobody has them"
