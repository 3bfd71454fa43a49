//! The table of codes and what docs/tlcp.md tells of it are the same.

use weir_tlcp::codes::{ControlCode, SessionCode};

const DOC: &str = include_str!("../../../docs/tlcp.md");

/// Codes and texts of the table under a heading, in order.
fn listed(heading: &str) -> Vec<(i32, &'static str)> {
    let (_, rest) = DOC.split_once(heading).expect("the heading");
    let rows = rest.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (cells[1].parse().expect(row), cells[2])
    })
    .collect()
}

#[test]
fn every_code_is_documented_and_no_other() {
    let session = SessionCode::ALL.iter().map(|one| (one.code(), one.text()));
    assert_eq!(listed("`CONERR` and `END`:"), session.collect::<Vec<_>>());
    let control = ControlCode::ALL.iter().map(|one| (one.code(), one.text()));
    assert_eq!(listed("`REQERR` and `ERROR`:"), control.collect::<Vec<_>>());
}

#[test]
fn a_number_finds_its_entry_and_a_client_reads_it_back() {
    for code in SessionCode::ALL {
        assert_eq!(SessionCode::from_code(code.code()), *code);
        let mut line = Vec::new();
        weir_tlcp::server::write_end(&mut line, *code, code.text());
        let line = line.strip_suffix(b"\r\n").expect("a whole line");
        let read = weir_tlcp::client::parse_line(line).expect("a good line");
        let weir_tlcp::client::Line::End {
            code: number,
            message,
        } = read
        else {
            panic!("not an END: {read:?}");
        };
        assert_eq!((number, &*message), (code.code(), code.text()));
    }
    for code in ControlCode::ALL {
        assert_eq!(ControlCode::from_code(code.code()).code(), code.code());
    }
}
