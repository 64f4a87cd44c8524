//! A sweep as autobench's table: one line per rate, and the columns of each target side by side.
//!
//! autobench names each column after its host (`req_rate_HOST`); with one target alone its name is
//! left out here, as in all other tables of Thalweg. Neither names nor values have white space,
//! since bench2graph takes the line apart there.

use thalweg_report::document::{Document, Sweep, Trial};

use super::tsv::{Row, autobench, none};

/// The table with `separator` between fields.
pub(super) fn table(document: &Document, sweep: &Sweep, separator: char) -> String {
    let columns: Vec<Vec<&Trial>> = sweep
        .targets
        .iter()
        .map(|target| target.trials.iter().filter_map(|position| document.trials.get(*position)).collect())
        .collect();
    let mut rates: Vec<f64> = columns.iter().flatten().filter_map(|trial| trial.offered_rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let mut lines = Vec::new();
    for rate in rates {
        let cells: Vec<Option<Row>> = columns
            .iter()
            .map(|trials| trials.iter().find(|trial| trial.offered_rate == Some(rate)).map(|trial| autobench(trial)))
            .collect();
        let Some(known) = cells.iter().flatten().next() else { continue };
        if lines.is_empty() {
            lines.push(join(&head(sweep, known), separator));
        }
        let mut line = vec![known[0].1.clone()];
        for row in &cells {
            line.extend((1..known.len()).map(|column| row.as_ref().map_or_else(none, |row| row[column].1.clone())));
        }
        lines.push(join(&line, separator));
    }
    lines.concat()
}

fn head(sweep: &Sweep, row: &Row) -> Vec<String> {
    let mut names = vec![row[0].0.clone()];
    for target in &sweep.targets {
        let suffix = if sweep.targets.len() > 1 { format!("_{}", target.name) } else { String::new() };
        names.extend(row[1..].iter().map(|(name, _)| format!("{name}{suffix}")));
    }
    names
}

fn join(fields: &[String], separator: char) -> String {
    let mut line = fields.join(&separator.to_string());
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use thalweg_report::document::{SweepEnd, SweptTarget};

    use super::super::fixture;
    use super::*;

    #[test]
    fn targets_stand_side_by_side_and_a_missing_trial_is_a_dash() {
        let at = |rate: f64| Trial { offered_rate: Some(rate), ..fixture::trial() };
        let document = fixture::document(vec![at(100.0), at(100.0), at(200.0)]);
        let target = |name: &str, trials: &[usize]| SweptTarget {
            target: format!("http://{name}/"),
            name: name.into(),
            trials: trials.into(),
            passed: None,
        };
        let sweep = |targets: Vec<SweptTarget>| Sweep {
            low_rate: 100.0,
            high_rate: 200.0,
            step: 100.0,
            targets,
            ended: SweepEnd::Failures,
        };
        let both = table(&document, &sweep(vec![target("a", &[0, 2]), target("b", &[1])]), '\t');
        let lines: Vec<Vec<&str>> = both.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[0].join(" "),
            "dem_req_rate req_rate_a con_rate_a min_rep_rate_a avg_rep_rate_a max_rep_rate_a stddev_rep_rate_a resp_time_a \
             net_io_a errors_a req_rate_b con_rate_b min_rep_rate_b avg_rep_rate_b max_rep_rate_b stddev_rep_rate_b \
             resp_time_b net_io_b errors_b"
        );
        assert_eq!(lines[2][..2].join(" "), "200.000 195.1");
        assert!(lines[2][10..].iter().all(|field| *field == "-"), "{both}");
        let alone = table(&document, &sweep(vec![target("a", &[0, 2])]), ',');
        assert!(alone.starts_with("dem_req_rate,req_rate,con_rate,"), "{alone}");
        assert_eq!(table(&document, &sweep(Vec::new()), ','), "");
    }
}
