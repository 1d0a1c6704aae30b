# Runs on every node, before the trainer.
function private_script()
{
  local l_thirdparty_dir=$1
  local l_workspace_dir=$2

  # add your script here

  cp $l_thirdparty_dir/*.py $l_workspace_dir/

}
