use ta_exec::protocol::{PtySize, SpawnParams};

use super::{await_output, finish, over_all, told};

fn size(cols: u16, rows: u16) -> PtySize {
    PtySize { cols: cols.try_into().unwrap(), rows: rows.try_into().unwrap() }
}

#[test]
fn a_terminal_has_a_size_that_changes() {
    over_all(|environment| {
        let script = "test -t 0 && test -t 2 && stty size; read x; stty size; exit 5";
        let mut params = SpawnParams::new("sh").arg("-c").arg(script);
        params.pty = Some(size(81, 17));
        let mut process = environment.spawn(&params).unwrap();
        await_output(&mut process, "17 81");
        let control = process.control();
        control.resize(size(100, 30)).unwrap();
        control.write(b"go\n", false).unwrap();
        let ran = finish(process).unwrap();
        assert!(ran.stdout.contains("30 100"), "{ran:?}");
        ran.exit.exit_code
    });
}

#[test]
fn an_end_of_file_is_the_character_on_a_terminal() {
    over_all(|environment| {
        let mut params = SpawnParams::new("cat");
        params.pty = Some(size(80, 24));
        let process = environment.spawn(&params).unwrap();
        process.control().write(b"line\n", true).unwrap();
        finish(process).unwrap().exit.exit_code
    });
}

#[test]
fn what_has_no_terminal_has_no_size() {
    over_all(|environment| {
        let params = SpawnParams::new("cat");
        let process = environment.spawn(&params).unwrap();
        let refused = told(environment, process.control().resize(size(80, 24)));
        process.control().abort();
        finish(process).unwrap();
        (refused.kind, refused.message.replace(params.process_id.as_str(), "ID"))
    });
}
