//! What every backend must do, as a list of trials. `suite!` makes a test of each for one harness.

pub(crate) mod ending;
pub(crate) mod environment;
pub(crate) mod failing;
pub(crate) mod output;
pub(crate) mod running;

/// The trials as tests, for `$harness`, an expression. Use it in a module of its own.
macro_rules! suite {
    ($harness:expr) => {
        $crate::launch::trials::suite! { $harness;
            running::a_job_runs_and_its_servers_end_with_it;
            running::servers_answer_before_trainers_start;
            running::arguments_arrive_as_they_were_typed;
            running::many_replicas_run_together;
            environment::the_environment_is_that_of_the_contract;
            environment::the_token_is_in_no_argument_list;
            output::every_byte_is_in_the_log;
            output::large_outputs_are_complete;
            output::lines_carry_their_replica;
            failing::the_first_failing_trainer_ends_the_job;
            failing::a_dying_server_ends_the_job;
            failing::a_command_that_cannot_run_is_named;
            failing::exit_codes_are_the_programs_own;
            failing::a_failed_trainer_is_started_again_when_asked_for;
            failing::restarts_end;
            ending::an_interrupt_lets_programs_finish;
            ending::a_termination_ends_what_does_not_listen;
            ending::a_killed_launcher_takes_all_down;
            ending::daemons_of_programs_end_with_the_job;
        }
    };
    ($harness:expr; $($module:ident :: $trial:ident;)*) => {
        $(
            #[test]
            fn $trial() {
                $crate::launch::trials::$module::$trial(&$harness);
            }
        )*
    };
}
pub(crate) use suite;
