//! The command line, where tests of this package find it.

fn main() -> std::process::ExitCode {
    turntree_cli::main()
}
