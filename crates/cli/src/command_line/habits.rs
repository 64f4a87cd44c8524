//! Options that other tools have and Thalweg does not: what to write instead. An option that means
//! the same here is an alias of Thalweg's, where that is declared.

/// An option of another tool, and the advice.
type Habit = (&'static [&'static str], &'static str);

/// The advice for an option that `command` does not have.
pub(super) fn advice(command: &str, option: &str) -> Option<&'static str> {
    let tables: &[&[Habit]] = match command {
        "run" => &[RUN, LOAD],
        "find" => &[FIND, LOAD],
        "sweep" => &[SWEEP, LOAD],
        "compare" => &[COMPARE, LOAD],
        "replay" => &[REPLAY, LOAD],
        "serve" => &[SERVE],
        _ => &[],
    };
    let find =
        |table: &&[Habit]| table.iter().find(|(options, _)| options.contains(&option)).map(|(_, advice)| *advice);
    tables.iter().find_map(find)
}

/// The advice for a word in the place of a command.
pub(super) fn command_advice(word: &str) -> Option<&'static str> {
    const COMMANDS: &[Habit] = &[
        (
            &["bench", "benchmark", "load", "attack", "test", "measure"],
            "run makes one load, find searches the capacity",
        ),
        (&["http", "server", "file-server", "static", "httpd", "listen"], "serve serves the files of a folder"),
        (&["diff", "ab"], "compare compares two servers"),
        (&["list", "ls", "history", "show"], "runs lists the stored runs, report shows one"),
        (&["check", "tune", "sysctl"], "doctor examines this host"),
        (&["log", "play"], "replay sends the requests of an access log"),
    ];
    if word.contains("://") {
        return Some(
            "the command comes first: thalweg run URL -c 64 -d 10 loads a server, thalweg find URL its capacity",
        );
    }
    COMMANDS.iter().find(|(words, _)| words.contains(&word)).map(|(_, advice)| *advice)
}

const ALL_LATENCIES: &str = "percentiles are always shown; leave it out, or see --format for other forms";
const ALWAYS_KEPT: &str = "connections are kept by default; --calls 1 closes each after its request";
const THREADS: &str = "a load thread runs on each CPU of --cores; the number of connections is --connections";
const NO_RETRIES: &str = "every error is counted, and the load goes on; --limit 'errors<1%' tolerates some";

/// For all commands that make a load.
const LOAD: &[Habit] = &[
    (&["--threads", "--cpus", "--parallel"], THREADS),
    (&["--keepalive", "--keep-alive", "--keepalive-time"], ALWAYS_KEPT),
    (
        &["--disable-keepalive", "--no-keepalive", "--no-keep-alive", "--close"],
        "--calls 1 closes each connection after its request",
    ),
    (&["-k"], "curl's -k is --insecure; ab's needs no option: connections are kept by default"),
    (&["-q"], "oha's -q is --rate; hey's counts per worker: --rate with -q times -c"),
    (&["--latency", "-L", "-l", "--latencies", "--latency-correction"], ALL_LATENCIES),
    (
        &["--port", "--server", "--uri", "--url", "--ssl"],
        "host, port and path are parts of the URL, such as http://127.0.0.1:8080/path",
    ),
    (&["--host"], "the field is --header 'Host: NAME'; the host to connect to is a part of the URL"),
    (
        &[
            "--data",
            "--data-raw",
            "--data-binary",
            "--data-ascii",
            "--body-file",
            "--post-file",
            "--json-body",
            "-D",
            "-b",
        ],
        "a body is --body TEXT, or --body @FILE; --curl takes a whole line of curl",
    ),
    (&["-p", "-P"], "ab's -p FILE is --body @FILE; oha's -p is --streams with --http 2"),
    (&["-T", "--content-type"], "use --header 'Content-Type: TYPE'"),
    (&["-A", "--accept", "--user-agent"], "use --header 'Accept: TYPE', or --header 'User-Agent: NAME'"),
    (&["-C", "--cookie"], "use --header 'Cookie: name=value'"),
    (
        &["-a", "-u", "--user", "--auth", "--basic-auth"],
        "credentials are a part of the URL: http://user:password@host/",
    ),
    (&["-i", "--head", "-I"], "use --method HEAD"),
    (&["--request"], "use --method NAME"),
    (&["--compressed", "--gzip"], "use --header 'Accept-Encoding: gzip'"),
    (&["--disable-compression"], "nothing is requested compressed unless --header 'Accept-Encoding: gzip' is given"),
    (&["--http2", "--h2", "-h2", "--http2-prior-knowledge"], "use --http 2"),
    (&["--http1.1", "--http1", "--h1"], "use --http 1.1"),
    (&["--http1.0"], "use --http 1.0"),
    (&["--http-version"], "use --http VERSION"),
    (
        &["--skip-verify", "--no-verify", "--no-check-certificate", "--no-tls-verify", "--tls-skip-verify"],
        "use --insecure",
    ),
    (&["--ca", "--root-certs", "--ca-certificate"], "use --cacert FILE"),
    (
        &["--grpc", "--proto", "--protobuf"],
        "gRPC is not spoken; --http 2 with --body @FILE sends one message in a POST",
    ),
    (&["--websocket", "--ws"], "WebSockets are not spoken"),
    (&["--http3", "--h3", "--quic"], "HTTP/3 is not spoken; use --http 2"),
    (&["-x", "--proxy"], "a load goes to its target directly, without a proxy"),
    (&["-s", "--script", "--lua"], "no scripts are run; users with think times are --session FILE (docs/workloads.md)"),
    (&["--targets", "--input-file", "--urls-from-file", "--url-file", "--file"], "use --urls FILE"),
    (
        &["-o", "--output", "--report", "--html", "--output-format", "--print"],
        "--out FILE writes a report in HTML, --format names the form on stdout",
    ),
    (&["--csv", "-g", "-e"], "use --format csv, or --hdr FILE for all response times"),
    (&["-w", "--workers-per-cpu"], "the number of connections is --connections; the report in HTML is --out FILE"),
    (&["--max-time", "--connect-timeout", "--request-timeout"], "use --timeout TIME"),
    (&["--max-streams", "--max-concurrent-streams"], "use --http 2 --streams N"),
    (&["--clients-per-host", "--num-connections", "--max-connections", "--hog", "--connection"], "use --connections N"),
    (&["--num-calls"], "use --calls N"),
    (&["--max-piped-calls"], "use --pipeline N"),
    (&["--interface", "--source", "--bind", "--source-address"], "use --from ADDRESS"),
    (&["--percentiles", "--percentile"], "--limit 'p99<50ms' judges a percentile; those of the result are fixed"),
    (&["--retry", "--retries", "--ignore-errors"], NO_RETRIES),
    (
        &["--verbose", "-v", "--debug", "-vv"],
        "--json has everything that was measured; HTTP errors are counted by kind",
    ),
    (&["--quiet", "--silent", "--no-progress"], "use --progress none; without a terminal there is none"),
    (&["--no-tui"], "use --plain for one line, or --progress none"),
    (&["--no-color", "--no-colour", "--disable-color"], "use --color never"),
    (&["--colour"], "use --color WHEN"),
    (&["--form", "-F"], "put the body into a file: --body @FILE"),
    (&["--unix", "--unix-path"], "use --unix-socket PATH"),
];

const RUN: &[Habit] = &[
    (&["--num-sessions", "--wsess"], "use --session FILE --conns N"),
    (&["--wsesslog"], "N, X and FILE of it are --conns N --think X --session FILE"),
    (&["--low-rate", "--high-rate", "--step"], "rates from low to high are thalweg sweep; a ramp is --rate 1000..5000"),
    (
        &["--ramp", "--ramp-up", "--rampup", "--stages"],
        "a ramp is --rate 1000..5000, steps are --rate 1000:10s,2000:10s",
    ),
    (&["--iterations"], "use --requests N"),
    (&["--users-per-second", "--arrival-rate", "--connection-rate"], "use --conn-rate RATE"),
    (&["--sleep", "--pause", "--delay"], "use --think TIME"),
    (&["--width", "--budget"], "a capacity is searched by thalweg find; run makes one load"),
];

const FIND: &[Habit] = &[
    (
        &[
            "--rate",
            "-r",
            "-R",
            "--qps",
            "--workers",
            "--requests",
            "-n",
            "--conn-rate",
            "--conns",
            "--hold",
            "--think",
        ],
        "a search chooses its rates itself; thalweg run makes one load",
    ),
    (&["--session"], "a search makes single requests; sessions are of thalweg run"),
    (&["--warmup"], "a search warms up by itself"),
];

const SWEEP: &[Habit] = &[
    (&["--rate", "-r", "-R", "--qps"], "a sweep has --low-rate, --high-rate and --step; thalweg run has one rate"),
    (
        &["--workers", "--requests", "-n", "--conn-rate", "--conns", "--hold", "--session"],
        "a sweep offers rates; thalweg run makes other loads",
    ),
    (&["--low_rate", "--rate_low"], "use --low-rate RATE"),
    (&["--high_rate", "--rate_high"], "use --high-rate RATE"),
    (&["--rate_step"], "use --step RATE"),
];

const COMPARE: &[Habit] = &[
    (&["--requests", "-n"], "a round has a length, --duration, and not a number of requests"),
    (
        &["--conn-rate", "--conns", "--hold", "--session"],
        "a comparison offers --rate or --workers; thalweg run makes other loads",
    ),
];

const LOG: &str = "the log determines the requests and their times; --speed 2 replays it twice as fast";

const REPLAY: &[Habit] = &[(
    &[
        "--urls",
        "--pick",
        "--method",
        "-m",
        "-X",
        "--body",
        "--calls",
        "--arrivals",
        "--seed",
        "--curl",
        "--rate",
        "-r",
        "-R",
        "--qps",
        "--workers",
        "--requests",
        "-n",
        "--duration",
        "-d",
        "-z",
        "--conn-rate",
        "--conns",
        "--hold",
        "--think",
        "--session",
        "--warmup",
        "--data",
    ],
    LOG,
)];

const SERVE: &[Habit] = &[
    (
        &["--bind", "-b", "--address", "-a", "--addr", "-i", "--interfaces", "--interface", "-l"],
        "use --listen ADDRESS:PORT, or --listen :PORT for all addresses",
    ),
    (
        &["--root", "--directory", "--dir", "-d", "--path", "-r", "--docroot"],
        "the folder is given without an option: thalweg serve FOLDER",
    ),
    (&["--browse", "--index", "--autoindex", "--list", "--dirlist", "-L"], "use --listing"),
    (&["--domain", "--hostname"], "use --tls auto --host NAME; several sites are in the configuration"),
    (&["--cert", "--key", "--certificate", "--tls-cert", "--tls-key", "--ssl"], "use --tls CERT:KEY"),
    (&["--https", "--self-signed"], "use --tls self-signed, or --tls auto with --host NAME"),
    (&["--log", "--accesslog", "--log-file"], "use --access-log FILE, or - for standard output"),
    (&["--proxy", "--upstream", "--backend"], "use --origin URL"),
    (&["--threads", "--workers", "--loops"], "a loop runs on each CPU of --cores"),
    (&["-c", "-f", "--conf", "--config-file"], "use --config FILE"),
    (&["-t", "--test", "--validate", "--dry-run"], "use --check"),
    (
        &["--cors", "--header", "-H", "--headers", "--gzip", "--compress"],
        "header fields and the like are set in the configuration: thalweg serve --print-config FOLDER > thalweg.toml",
    ),
    (&["--auth", "--upload-files", "-u", "--upload", "--spa"], "it only serves files; docs/http.md says what it does"),
    (&["--daemon", "-D", "--background"], "it runs in the foreground; packaging/systemd has units"),
    (&["--rate-limit", "--limit"], "rates are set in the configuration (docs/limits.md)"),
    (&["--url", "--open", "-o"], "the addresses are printed at the start"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const COMMANDS: [(&str, &[&[Habit]]); 6] = [
        ("run", &[RUN, LOAD]),
        ("find", &[FIND, LOAD]),
        ("sweep", &[SWEEP, LOAD]),
        ("compare", &[COMPARE, LOAD]),
        ("replay", &[REPLAY, LOAD]),
        ("serve", &[SERVE]),
    ];

    #[test]
    fn advice_is_for_the_command() {
        for (command, option, part) in [
            ("run", "--threads", "--cores"),
            ("run", "-k", "--insecure"),
            ("find", "--rate", "thalweg run"),
            ("sweep", "-r", "--low-rate"),
            ("replay", "--urls", "the log determines"),
            ("serve", "--bind", "--listen"),
        ] {
            assert!(advice(command, option).is_some_and(|advice| advice.contains(part)), "{command} {option}");
        }
        assert_eq!((advice("run", "--nonsense"), advice("doctor", "--threads")), (None, None));
        assert!(command_advice("http://a/").is_some() && command_advice("bench").is_some());
        assert_eq!(command_advice("x"), None);
    }

    /// Advice must not stand in the way of an option, and must not name one that is not there.
    #[test]
    fn options_of_other_tools_are_none_of_ours_and_advice_names_ours() {
        let all = crate::options::Options::command();
        for (name, tables) in COMMANDS {
            let command = all.find_subcommand(name).expect("a command");
            let is_ours = |option: &str| {
                command.get_arguments().chain(all.get_arguments()).any(|argument| match option.strip_prefix("--") {
                    Some(long) => argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&long)),
                    None => option.chars().nth(1).is_some_and(|letter| {
                        option.len() == 2
                            && argument.get_short_and_visible_aliases().is_some_and(|letters| letters.contains(&letter))
                    }),
                })
            };
            let others: Vec<_> = all.get_subcommands().filter(|other| other.get_name() != name).collect();
            for (options, advice) in tables.iter().flat_map(|table| table.iter()) {
                // A table that all loads share may have advice that only one of them needs.
                for option in *options {
                    assert!(
                        !is_ours(option) || tables[0].iter().all(|(options, _)| !options.contains(option)),
                        "{name} {option}"
                    );
                }
                for word in advice.split([' ', ',', ':', ';', '\'', ')', '(']).filter(|word| word.starts_with("--")) {
                    let is_of_another = others.iter().any(|other| {
                        other.get_arguments().any(|argument| argument.get_long() == word.strip_prefix("--"))
                    });
                    assert!(is_ours(word) || is_of_another, "{name} has no {word}: {advice}");
                }
            }
        }
    }
}
