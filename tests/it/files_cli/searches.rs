//! `ta fs find` and `ta fs grep`.

use super::everywhere;

#[test]
fn find_shows_paths_in_order_and_says_that_there_are_more() {
    everywhere(|site| {
        for name in ["b.rs", "a.rs", "c.txt", ".d.rs"] {
            site.there.write(name, "");
        }
        let here = site.far(".");
        let find = |args: &[&str]| site.run("fs find", [args, &[here.as_str()]].concat());
        assert_eq!(find(&["*.rs"]).text(), ".d.rs\na.rs\nb.rs\n");
        assert_eq!(find(&["--no-hidden", "*.rs"]).text(), "a.rs\nb.rs\n");
        assert_eq!(find(&["--ignore", "*.rs", "*"]).text(), "c.txt\n");
        let some = find(&["--limit", "2", "*"]);
        assert_eq!(String::from_utf8_lossy(&some.stdout), ".d.rs\na.rs\n");
        assert!(some.stderr.contains("more than these 2"));
        let json = find(&["--json", "a*"]).json();
        assert_eq!(json["entries"][0]["path"], "a.rs");
        find(&["[a"]).failed(1, "pattern");
    });
}

#[test]
fn grep_shows_lines_and_ends_with_one_where_there_are_none() {
    everywhere(|site| {
        site.there.write("a", "one\nneedle\nthree\n");
        site.there.write("b", "Needle\n");
        let here = site.far(".");
        let grep = |args: &[&str]| site.run("fs grep", [args, &[here.as_str()]].concat());
        assert_eq!(grep(&["needle"]).text(), "a:2:needle\n");
        assert_eq!(
            grep(&["-i", "-C", "1", "needle"]).text(),
            "a-1-one\na:2:needle\na-3-three\n--\nb:1:Needle\n"
        );
        assert_eq!(grep(&["-F", "-g", "b", "Needle"]).text(), "b:1:Needle\n");
        let none = grep(&["nowhere"]);
        assert_eq!((none.code, none.stdout.len(), none.stderr.as_str()), (1, 0, ""));
        grep(&["a("]).failed(1, "unclosed group");
        assert_eq!(grep(&["--json", "needle"]).json()["matches"][0]["line"], 2);
    });
}
