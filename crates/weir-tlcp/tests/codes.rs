//! Compares the code catalogues with docs/tlcp.md.

use weir_tlcp::codes::{ControlCode, SessionCode};

const DOC: &str = include_str!("../../../docs/tlcp.md");

/// Returns the codes and texts of the table under a heading, in order.
fn documented(heading: &str) -> Vec<(i32, &'static str)> {
    let (_, rest) = DOC.split_once(heading).expect("heading");
    let rows = rest.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        (cells[1].parse().expect(row), cells[2])
    })
    .collect()
}

#[test]
fn documented_codes_match_catalogues() {
    let session = SessionCode::ALL.iter().map(|one| (one.code(), one.text()));
    assert_eq!(
        documented("`CONERR` and `END`:"),
        session.collect::<Vec<_>>()
    );
    let control = ControlCode::ALL.iter().map(|one| (one.code(), one.text()));
    assert_eq!(
        documented("`REQERR` and `ERROR`:"),
        control.collect::<Vec<_>>()
    );
}

#[test]
fn codes_round_trip_through_client() {
    for code in SessionCode::ALL {
        assert_eq!(SessionCode::from_code(code.code()), *code);
        let mut line = Vec::new();
        weir_tlcp::server::write_end(&mut line, *code, code.text());
        let line = line.strip_suffix(b"\r\n").expect("line end");
        let read = weir_tlcp::client::parse_line(line).expect("valid line");
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
