use super::*;
use crate::cell::Backend;
use crate::output::fixture;
use crate::output::report::RowReport;
use crate::result::RowResult;

fn page(rows: &[ReportRow]) -> String {
    report(rows).expect("rendered")
}

fn report_row() -> ReportRow {
    ReportRow {
        reports: vec![RowReport::new(fixture::row(), &fixture::runs()).expect("drawn")],
    }
}

#[test]
fn a_row_shows_claim_figures_verdicts_numbers_and_how_to_run_it_again() {
    let page = page(&[report_row()]);
    for wanted in [
        "Rows: 1. Shapes that the papers found: 1 of 3 hold.",
        "<span class=\"score some\">1 of 3 hold</span>",
        "With TSQ the round trip collapses on the local bottleneck only",
        "class=\"holds\"><span class=\"mark\">✓</span><div>with TSQ the round trip",
        "<b>117 (105 to 129)</b>",
        "Does not hold:</span> and on the remote one",
        "Cannot be computed (no `fetch`):",
        "001-f4.toml:40",
        "Where we differ",
        "<pre><code>lab run 001-F4 --seed 0\n</code></pre>",
        "<th>Ping, median<br><span class=\"unit\">ms</span></th>",
        "<td>2.08<small>1.97 to 2.18</small></td>",
        "<td>–</td>",
        "0.05: differ",
    ] {
        assert!(
            page.contains(wanted),
            "{wanted} in {}",
            &page[page.find("<h3>Numbers").unwrap_or(0)..]
        );
    }
    assert_eq!(
        page.matches("<svg").count(),
        4,
        "bars, boxes, and the course on each bottleneck"
    );
}

/// The fixture's row of which the cells without TSQ were not run.
fn part() -> RowReport {
    let mut row = fixture::row();
    for cell in row
        .cells
        .iter_mut()
        .filter(|cell| cell.cell.values().any(|value| value == "NoTSQ"))
    {
        (cell.seeds, cell.numbers) = (Vec::new(), Default::default());
    }
    row.shapes[0].judged = Judgment::NotRun(vec!["L100M_NoTSQ".to_owned()]);
    let runs: Vec<_> = fixture::runs()
        .into_iter()
        .filter(|run| run.cell.values().all(|value| value != "NoTSQ"))
        .collect();
    RowReport::new(row, &runs).expect("drawn")
}

#[test]
fn part_of_a_row_is_shown_as_part() {
    let page = page(&[ReportRow {
        reports: vec![part()],
    }]);
    for wanted in [
        "0 of 3 hold, 1 not judged",
        "Not judged, cells not run (L100M_NoTSQ):</span> with TSQ the round trip",
        "lab run 001-F4 --seed 0 --cell L100M_TSQ --cell R100M_TSQ\n",
    ] {
        assert!(page.contains(wanted), "{wanted} in {page}");
    }
    assert!(
        page.contains("<svg") && !page.contains(">NoTSQ</text>"),
        "what was run is drawn"
    );
}

#[test]
fn a_figure_of_cells_that_were_not_run_is_left_out() {
    let mut row = part().row;
    let stated = |only: &str| {
        format!("kind = 'bars'\nshow = ['goodput.total']\nwhere = {{ tsq = '{only}' }}")
    };
    row.figures = ["TSQ", "NoTSQ"]
        .map(|only| toml::from_str(&stated(only)).expect("a figure"))
        .into();
    let runs: Vec<_> = fixture::runs()
        .into_iter()
        .filter(|run| run.cell.values().all(|value| value != "NoTSQ"))
        .collect();
    let drawn = RowReport::new(row, &runs).expect("drawn");
    assert_eq!(
        drawn
            .figures
            .iter()
            .map(|figure| figure.file.as_str())
            .collect::<Vec<_>>(),
        ["figure-1.svg"]
    );
}

#[test]
fn the_page_needs_nothing_beside_itself() {
    let page = page(&[report_row()]);
    for outside in [
        "<script", "<link", "<img", "@import", "url(", "src=", "http://", "https://",
    ] {
        let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn both_backends_stand_side_by_side() {
    let mut both = report_row();
    let wire = RowResult {
        path: Backend::Veth,
        ..fixture::row()
    };
    both.reports
        .push(RowReport::new(wire, &fixture::runs()).expect("drawn"));
    let page = page(&[both]);
    for wanted in [
        "Does it hold?, in virtual time",
        "Does it hold?, on the wire (veth)",
        "lab run 001-F4 --seed 0 --path veth",
        "wire: 1 of 3 hold",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert_eq!(page.matches("<th>Ping, median").count(), 2);
}

#[test]
fn text_of_files_is_only_text() {
    let evil = "<script>alert('1')</script>\"&";
    let mut row = fixture::row();
    row.title = evil.to_owned();
    row.claim = evil.to_owned();
    row.note = Some(evil.to_owned());
    row.shapes[0].expected.says = evil.to_owned();
    row.shapes[0].expected.check = evil.to_owned();
    row.shapes[2].judged = Judgment::Error(evil.to_owned());
    row.cells[0].cell.0[0].1 = evil.to_owned();
    let page = page(&[ReportRow {
        reports: vec![RowReport::new(row, &fixture::runs()).expect("drawn")],
    }]);
    assert!(
        !page.contains("<script")
            && page.contains("&#60;script&#62;alert(&#39;1&#39;)&#60;/script&#62;&#34;&#38;")
    );
}

#[test]
fn equal_results_are_equal_pages_and_nothing_is_a_page_too() {
    assert_eq!(page(&[report_row()]), page(&[report_row()]));
    assert!(page(&[]).contains("Rows: 0."));
}
