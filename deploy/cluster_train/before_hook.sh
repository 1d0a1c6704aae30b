# Runs on every node, before the trainer: a command that fails ends the job.
function private_script()
{
  local l_thirdparty_dir=$1
  local l_workspace_dir=$2

  # add your script here

}
