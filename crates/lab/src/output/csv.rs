//! A run as CSV (RFC 4180) in long form: one sample to a line, so that files of many runs can
//! simply be joined.
//!
//! | column | holds |
//! |---|---|
//! | `scenario` | id of the row, `001-F4` |
//! | one for each axis, by its name, `axis.seed` where another column has that | the cell's value |
//! | `path` | `sim` or `veth` |
//! | `seed` | the repetition's seed |
//! | `quantity` | [`Quantity::name`](crate::Quantity::name): `goodput` |
//! | `of` | flow with its number or port: `upload-1`, `router>server` |
//! | `unit` | of the value: `Mbit/s` |
//! | `measured` | 1 inside the measured time, 0 in the warm-up, whose end is part of it |
//! | `time_s` | seconds from the start of the run |
//! | `value` | the sample; empty if it is no number |

use std::io;

use csv::Writer;

use crate::cell::column;
use crate::recording::Run;

/// Writes `run` to `out`.
///
/// # Errors
/// What `out` reports.
pub(crate) fn write(run: &Run, out: impl io::Write) -> csv::Result<()> {
    let mut out = Writer::from_writer(out);
    let columns = "scenario path seed quantity of unit measured time_s value";
    let columns: Vec<&str> = columns.split(' ').collect();
    out.write_field(columns[0])?;
    for (axis, _) in &run.cell.0 {
        out.write_field(column(axis, &columns))?;
    }
    out.write_record(&columns[1..])?;
    let seed = run.seed.to_string();
    for series in &run.series {
        let quantity = series.quantity;
        for (at, value) in &series.points {
            let measured = run.is_measured(*at);
            out.write_field(&run.scenario)?;
            for value in run.cell.values() {
                out.write_field(value)?;
            }
            for field in [
                run.path.name(),
                &seed,
                quantity.name(),
                &series.of,
                quantity.unit(),
            ] {
                out.write_field(field)?;
            }
            out.write_field(if measured { "1" } else { "0" })?;
            out.write_field(at.to_string())?;
            let value = value.is_finite().then(|| value.to_string());
            out.write_record([value.unwrap_or_default()])?;
        }
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixture;

    fn lines(run: &Run) -> Vec<String> {
        let mut out = Vec::new();
        write(run, &mut out).expect("written");
        String::from_utf8(out)
            .expect("text")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn each_sample_is_a_line_that_says_all_of_itself() {
        let run = &fixture::runs()[0];
        let lines = lines(run);
        assert_eq!(
            lines[0],
            "scenario,bottleneck,tsq,path,seed,quantity,of,unit,measured,time_s,value"
        );
        assert_eq!(
            lines[1],
            "001-F4,L100M,TSQ,sim,1,goodput,upload-1,Mbit/s,0,0.1,48"
        );
        // It stands for the last interval of the warm-up.
        assert_eq!(
            lines[10],
            "001-F4,L100M,TSQ,sim,1,goodput,upload-1,Mbit/s,0,1,48"
        );
        let measured = lines.iter().filter(|line| line.contains(",1,1.1,"));
        assert_eq!(measured.count(), run.series.len());
        assert_eq!(
            lines.len(),
            1 + run
                .series
                .iter()
                .map(|series| series.points.len())
                .sum::<usize>()
        );
    }

    #[test]
    fn separators_are_quoted_and_what_is_no_number_is_empty() {
        let mut run = fixture::runs().remove(0);
        run.scenario = "a,\"b\"".to_owned();
        run.series.truncate(1);
        run.series[0].points = vec![(0.1, f64::NAN), (0.2, 1e300)];
        let lines = lines(&run);
        assert!(
            lines[1].starts_with("\"a,\"\"b\"\"\",") && lines[1].ends_with(",0.1,"),
            "{}",
            lines[1]
        );
        assert!(lines[2].ends_with("000"), "{}", lines[2]);
    }
}
