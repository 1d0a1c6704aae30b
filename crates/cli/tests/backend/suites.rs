//! The trials on every place.

use super::places::{Kubernetes, Local, Mpi, Sandboxed, Slurm, Ssh};

mod local {
    crate::backend::trials::suite!(super::Local { isolates: true });
}

mod local_without_namespace {
    crate::backend::trials::suite!(super::Local { isolates: false });
}

mod sandboxed {
    crate::backend::trials::suite!(match super::Sandboxed::find() {
        Some(sandboxed) => sandboxed,
        None => return,
    });
}

mod ssh {
    crate::backend::trials::suite!(match super::Ssh::find() {
        Some(ssh) => ssh,
        None => return,
    });
}

/// Servers that behave badly take the place of `paddle` on the machines, which only ssh lets us
/// choose.
mod bad_servers {
    crate::backend::trials::suite! {
        match super::Ssh::find() {
            Some(ssh) => ssh,
            None => return,
        };
        servers::a_slow_server_is_waited_for;
        servers::a_silent_server_is_named_after_its_time;
        servers::a_server_that_ends_before_it_is_ready_fails_the_job;
        servers::a_server_that_is_killed_while_it_starts_is_a_fault_like_any_other;
        servers::the_time_limit_counts_while_machines_are_reached;
        servers::noise_before_the_readiness_line_is_passed_over;
    }
}

/// Hosts that are lost while they are reached.
mod bad_hosts {
    crate::backend::trials::suite! {
        match super::Ssh::find() {
            Some(ssh) => ssh,
            None => return,
        };
        surviving::a_conductor_that_dies_before_hosts_are_ready_leaves_the_rest_to_the_next;
        surviving::a_package_is_copied_once_however_often_a_host_is_reached;
    }
}

mod mpi {
    crate::backend::trials::suite!(match super::Mpi::find() {
        Some(mpi) => mpi,
        None => return,
    });
}

mod slurm {
    crate::backend::trials::suite!(match super::Slurm::find() {
        Some(slurm) => slurm,
        None => return,
    });
}

/// Trials on a cluster, with Volcano or without, and those that only one of them has. Left out are
/// trials of what pods do not have:
/// - `surviving`, `a_leashed_job…`, `a_job_whose_launcher_was_killed…`: no conductor, guard,
///   supervisor or leash; the cluster looks after its pods. A story kills a launcher.
/// - `a_topology_that_is_not_there_is_refused_by_name`: what the image has is known when a pod runs
///   it; exit code and log say what is missing.
/// - `what_is_no_file_of_figures…`: each job has a folder of its own for logs.
/// - `no_two_trainers_have_the_same_gpu`, `more_gpus…`: the cluster deals GPUs out.
/// - `a_dying_server…`: trainers do not see the servers' processes. A story kills one in its pod.
/// - `a_forced_kill_waits_for_nobody`: a kubelet that has begun to end a pod gives its program the
///   time that it was told first, whatever comes later.
/// - `restarts_end`: restarts are counted in the pod, and told in its log.
/// - `servers_that_nobody_used_are_named`: not checked on Kubernetes, which a note says.
/// - `a_server_that_cannot_serve_ends_the_job`: every pod has all ports for itself.
/// - `a_field_that_cannot_be_honoured…`, `what_only_some_places_have…`: here most of those fields are
///   honoured; unit tests have the others.
/// - `a_checkpoint_folder_is_one_for_all_servers`: it has to be on a volume, else it is refused.
/// - `a_trainer_that_was_given_up…`: Volcano keeps a pod that has failed for good as it is.
/// - `trainers_join_and_leave_a_running_job`: those that have left are gone; a story scales a job.
macro_rules! pods {
    ($uses_volcano:expr; $($module:ident :: $trial:ident;)*) => {
        crate::backend::trials::suite! {
            match super::Kubernetes::find($uses_volcano) {
                Some(kubernetes) => kubernetes,
                None => return,
            };
            running::a_job_runs_and_its_servers_end_with_it;
            running::servers_answer_before_trainers_start;
            running::arguments_arrive_as_they_were_typed;
            running::many_replicas_run_together;
            running::more_trainers_than_machines_share_them;
            running::a_master_comes_first;
            environment::the_environment_is_that_of_the_contract;
            environment::the_token_is_in_no_argument_list;
            topology::a_topology_is_trained_with_the_flags_of_the_contract;
            topology::every_trainer_has_a_list_of_its_own;
            output::every_byte_is_in_the_log;
            output::large_outputs_are_complete;
            output::a_cursor_goes_on_over_a_restart;
            output::figures_are_kept_with_their_history;
            output::hostile_files_in_the_log_directory_neither_block_nor_mislead;
            failing::the_first_failing_trainer_ends_the_job;
            failing::a_command_that_cannot_run_is_named;
            failing::exit_codes_are_the_programs_own;
            failing::a_failed_trainer_is_started_again_when_asked_for;
            limits::the_time_limit_ends_the_job;
            limits::too_much_memory_ends_the_replica_with_that_reason;
            asking::the_same_job_again_starts_nothing_new;
            asking::another_job_under_the_same_id_is_a_conflict;
            asking::a_list_shows_the_jobs_of_one_origin;
            asking::what_is_not_there_is_said_to_be_not_there;
            asking::an_ended_job_can_be_forgotten_and_a_running_one_not;
            ending::a_kill_lets_programs_finish;
            ending::a_job_is_killed_while_it_starts;
            ending::daemons_of_programs_end_with_the_job;
            $($module::$trial;)*
        }
    };
}

mod kubernetes {
    pods! { true;
        failing::a_server_that_a_signal_ends_is_a_fault_like_any_other;
        elastic::a_job_goes_on_without_a_trainer_that_cannot_run;
    }
}

/// As a StatefulSet and an Indexed Job. Elastic jobs are refused there; a server that a signal ends
/// always ends the job, which a story has.
mod kubernetes_without_volcano {
    pods! { false; }
}

/// Pods of a user who may write to their volume alone.
mod kubernetes_without_root {
    crate::backend::trials::suite! {
        match super::Kubernetes::find(true) {
            Some(kubernetes) => kubernetes.without_root(),
            None => return,
        };
        topology::every_trainer_has_a_list_of_its_own;
        output::figures_are_kept_with_their_history;
    }
}
