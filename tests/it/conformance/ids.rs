use ta_exec::ErrorKind;
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{finish, over_all, told};
use crate::support::{DEADLINE, eventually};

#[test]
fn an_id_names_one_live_process() {
    over_all(|environment| {
        let first = environment.exec(&ExecParams::new("sleep 60")).unwrap();
        // It says so at once, whatever else is wrong.
        let mut exec = ExecParams::new("true");
        let mut spawn = SpawnParams::new("no-such-program");
        let first_params = ExecParams::new("sleep 60");
        let second = environment.exec(&first_params).unwrap();
        exec.process_id = first_params.process_id.clone();
        exec.cwd = Some("nope".to_owned());
        spawn.process_id = first_params.process_id.clone();
        let id = first_params.process_id.as_str();
        let same = |told: super::Told| (told.kind, told.message.replace(id, "ID"));
        let refused = [
            same(told(environment, environment.exec(&exec))),
            same(told(environment, environment.spawn(&spawn))),
        ];
        assert_eq!(refused[0].0, ErrorKind::DuplicateId);
        first.control().abort();
        second.control().abort();
        finish(first).unwrap();
        finish(second).unwrap();
        // It is free again.
        exec.cwd = None;
        finish(environment.exec(&exec).unwrap()).unwrap();
        refused
    });
}

/// The first one's last word has come, whether it was taken or not.
#[test]
fn an_id_is_free_again_whoever_still_holds_the_process_that_had_it() {
    over_all(|environment| {
        let first_params = ExecParams::new("true");
        let mut second_params = ExecParams::new("read x; sleep 0.3; echo second; exit 2");
        second_params.process_id = first_params.process_id.clone();
        let first = environment.exec(&first_params).unwrap();
        let mut second = None;
        eventually(DEADLINE, "the id is free", || {
            second = environment.exec(&second_params).ok();
            second.is_some()
        });
        drop(first);
        finish(second.unwrap()).unwrap()
    });
}
