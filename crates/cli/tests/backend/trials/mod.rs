//! What every backend must do, as a list of trials. `suite!` makes a test of each for one place.

pub(crate) mod asking;
pub(crate) mod elastic;
pub(crate) mod ending;
pub(crate) mod environment;
pub(crate) mod failing;
pub(crate) mod limits;
pub(crate) mod output;
pub(crate) mod running;
pub(crate) mod servers;
pub(crate) mod surviving;
pub(crate) mod topology;

/// The trials as tests, for `$harness`, an expression. Use it in a module of its own.
macro_rules! suite {
    ($harness:expr) => {
        $crate::backend::trials::suite! { $harness;
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
            topology::a_topology_that_is_not_there_is_refused_by_name;
            output::every_byte_is_in_the_log;
            output::large_outputs_are_complete;
            output::a_cursor_goes_on_over_a_restart;
            output::figures_are_kept_with_their_history;
            output::hostile_files_in_the_log_directory_neither_block_nor_mislead;
            output::what_is_no_file_of_figures_does_not_fail_the_next_job;
            failing::the_first_failing_trainer_ends_the_job;
            failing::a_dying_server_ends_the_job;
            failing::a_dying_server_takes_all_back_when_restarts_are_left;
            failing::a_server_that_a_signal_ends_is_a_fault_like_any_other;
            failing::a_command_that_cannot_run_is_named;
            failing::exit_codes_are_the_programs_own;
            failing::a_failed_trainer_is_started_again_when_asked_for;
            failing::restarts_end;
            failing::servers_that_nobody_used_are_named;
            failing::a_server_that_cannot_serve_ends_the_job;
            limits::a_field_that_cannot_be_honoured_is_refused_by_name;
            limits::what_only_some_places_have_is_refused_by_name;
            limits::no_two_trainers_have_the_same_gpu;
            limits::more_gpus_than_there_are_fail_the_job_with_that_reason;
            limits::a_checkpoint_folder_is_one_for_all_servers;
            limits::the_time_limit_ends_the_job;
            limits::too_much_memory_ends_the_replica_with_that_reason;
            asking::the_same_job_again_starts_nothing_new;
            asking::another_job_under_the_same_id_is_a_conflict;
            asking::a_list_shows_the_jobs_of_one_origin;
            asking::what_is_not_there_is_said_to_be_not_there;
            asking::an_ended_job_can_be_forgotten_and_a_running_one_not;
            asking::a_job_whose_launcher_was_killed_is_forgotten_after_a_day;
            ending::a_kill_lets_programs_finish;
            ending::a_forced_kill_waits_for_nobody;
            ending::a_job_is_killed_while_it_starts;
            ending::a_leashed_job_ends_with_its_leash;
            ending::daemons_of_programs_end_with_the_job;
            surviving::a_killed_conductor_is_replaced_and_the_job_finishes;
            surviving::a_job_that_lost_conductor_and_guard_is_revived_by_a_list;
            surviving::a_kill_ends_a_job_whose_conductor_is_stopped;
            surviving::without_restarts_a_killed_conductor_fails_the_job;
            surviving::an_end_that_was_decided_stays_decided;
            surviving::a_job_whose_record_is_lost_begins_anew;
            surviving::a_killed_supervisor_is_a_fault_like_any_other;
            surviving::processes_of_a_supervisor_that_was_killed_as_a_whole_are_found;
            elastic::trainers_join_and_leave_a_running_job;
            elastic::a_job_goes_on_without_a_trainer_that_cannot_run;
            elastic::a_trainer_that_was_given_up_is_started_again_when_asked_for;
        }
    };
    ($harness:expr; $($module:ident :: $trial:ident;)*) => {
        $(
            #[test]
            fn $trial() {
                $crate::backend::trials::$module::$trial(&$harness);
            }
        )*
    };
}
pub(crate) use suite;
