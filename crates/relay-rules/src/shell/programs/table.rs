//! The programs that run, load or write something by their arguments.
//!
//! A row's name may be two words, a program and its subcommand; both rows count then. The table is there to make a
//! wildcard cover less, so a row too many costs a question and a row too few costs more.

use super::{Nature, Program};

const fn wrapper(names: &'static str, values: &'static str, operands: usize) -> Program {
    Program {
        names,
        nature: Nature::Wrapper { values, operands },
        short: "",
        long: "",
    }
}

const fn text(names: &'static str, values: &'static str, operands: usize) -> Program {
    Program {
        names,
        nature: Nature::ShellText { values, operands },
        short: "",
        long: "",
    }
}

const fn row(
    nature: Nature,
    names: &'static str,
    short: &'static str,
    long: &'static str,
) -> Program {
    Program {
        names,
        nature,
        short,
        long,
    }
}

const fn plain(names: &'static str, short: &'static str, long: &'static str) -> Program {
    row(Nature::Plain, names, short, long)
}

const fn code(names: &'static str, short: &'static str, long: &'static str) -> Program {
    row(Nature::Interpreter, names, short, long)
}

const fn opaque(names: &'static str) -> Program {
    row(Nature::Opaque, names, "", "")
}

/// Names in a row are separated by `|`, long options and words by blanks.
pub(super) static TABLE: &[Program] = &[
    // Run the command that follows.
    wrapper("sudo", "ugpCcDhRrTtU", 0),
    wrapper("doas", "uC", 0),
    wrapper("env", "uCS", 0),
    wrapper("xargs", "aEILnPsd", 0),
    wrapper(
        "nohup|setsid|builtin|command|fakeroot|busybox|toybox|unbuffer|dbus-run-session|caffeinate|noglob",
        "",
        0,
    ),
    wrapper("nice|ionice", "ncpPu", 0),
    wrapper("exec", "a", 0),
    wrapper("timeout", "ks", 1),
    wrapper("gtimeout", "ks", 1),
    wrapper("time|gtime", "fo", 0),
    wrapper("stdbuf", "ioe", 0),
    wrapper("strace|ltrace", "eopsPEuaOSbIXU", 0),
    wrapper("flock", "wE", 1),
    wrapper("chroot|taskset|chrt|setarch|runcon", "", 1),
    wrapper(
        "linux32|linux64|prlimit|cgexec|aa-exec|firejail|bwrap",
        "",
        0,
    ),
    wrapper(
        "proot|numactl|perf|valgrind|rlwrap|xvfb-run|catchsegv",
        "",
        0,
    ),
    wrapper(
        "unshare|nsenter|systemd-run|systemd-inhibit",
        "tSGRrwpMu",
        0,
    ),
    wrapper("runuser", "ugGs", 0),
    wrapper("npx|pnpx|bunx|uvx|pipx", "p", 0),
    wrapper(
        "npm exec|npm x|yarn dlx|yarn exec|pnpm dlx|pnpm exec|bundle exec|poetry run|uv run|pipenv run",
        "",
        0,
    ),
    wrapper(
        "docker run|docker exec|docker create|docker compose|docker-compose",
        "",
        1,
    ),
    wrapper(
        "podman run|podman exec|podman create|podman compose|nerdctl run|nerdctl exec",
        "",
        1,
    ),
    wrapper(
        "kubectl exec|kubectl run|kubectl debug|oc exec|oc run|oc rsh",
        "",
        1,
    ),
    wrapper(
        "ip netns|git bisect|direnv exec|mise exec|asdf exec|nix run|nix develop|nix shell",
        "",
        1,
    ),
    wrapper(
        "start-stop-daemon|daemonize|cpulimit|chpst|softlimit|ld.so|ld-linux-x86-64.so.2|ld-linux-aarch64.so.1",
        "",
        0,
    ),
    wrapper(
        "pkexec|gosu|su-exec|run0|chronic|ifne|torify|torsocks|proxychains|tsocks|wine|and|or|not|begin|nocorrect|-",
        "u",
        0,
    ),
    wrapper(
        "repeat|dotenv|aws-vault|watchexec|cargo watch|yarn node|pnpm node|snap run|flatpak run",
        "",
        1,
    ),
    wrapper(
        "doppler run|op run|chamber exec|rbenv exec|pyenv exec|nvm exec|fnm exec|conda run|micromamba run|volta run",
        "",
        0,
    ),
    // Run shell text.
    text("eval", "", 0),
    text("watch", "nd", 0),
    text("parallel", "jNIa", 0),
    text("trap", "", 0),
    text("ssh|mosh|autossh", "bcDEeFIiJLlmOopQRSWwB", 1),
    text("su|script", "ugGsTtIOEmo", 0),
    text("entr|nodemon|hyperfine|sg|concurrently|pee|mispipe", "", 0),
    // Run what can't be read here.
    opaque("source|.|alias|unalias|hash|enable|bind|fc|history|complete|compgen|compopt|coproc"),
    opaque(
        "set|shopt|export|declare|typeset|local|readonly|let|read|mapfile|readarray|getopts|unset|wait|setopt|emulate",
    ),
    opaque("at|batch|crontab|tmux|screen|xdg-open|open|socat|expect|gdb|lldb|m4|dc|osascript|dlv"),
    opaque("vi|vim|nvim|view|ex|ed|emacs|emacsclient|nano|pico|joe|kak|hx|micro"),
    opaque("ldd|run-parts|nix-shell|ftp|lftp|tftp|mail|mailx|mutt|openvpn"),
    opaque("npm explore|cargo rustc|go generate|go tool|go env"),
    opaque(
        "git remote-ext|git remote-fd|git instaweb|git shell|git maintenance|git help|git web--browse",
    ),
    opaque("git svn|git p4|git gui|git citool"),
    opaque(
        "git config|git submodule|git filter-branch|git filter-repo|git daemon|git hook|git send-email|git mergetool|git credential",
    ),
    opaque(
        "npm config|npm set|yarn config|pnpm config|pip config|gh alias|gh extension|kubectl plugin|kubectl edit|docker context",
    ),
    opaque("sqlite3|cmd|cmd.exe|wsl|msiexec|rundll32|regsvr32|mshta|wmic"),
    // Shells and languages.
    row(
        Nature::Shell,
        "sh|bash|dash|zsh|ksh|mksh|fish|ash|csh|tcsh|rbash|oil|osh|ysh|nu|elvish|xonsh",
        "cs",
        "command init-file rcfile init-command init commands interactive login posix",
    ),
    code(
        "python|pypy|ipython|micropython",
        "cix",
        "=timeit =code =pdb =-",
    ),
    code(
        "node|nodejs",
        "epri",
        "eval print require import loader experimental-loader interactive inspect inspect-brk env-file",
    ),
    code("bun", "eprx", "eval print preload =exec =x =eval"),
    code("deno", "", "=eval =repl"),
    code("tsx|ts-node|coffee", "epri", "eval print require"),
    code("perl", "eEIMmdsSxnp0", ""),
    code("ruby|jruby|irb", "eIrxnpCS", ""),
    code(
        "php",
        "rBREFadcz",
        "run process-begin process-code process-end define",
    ),
    code("lua|luajit|tclsh|wish|guile|gauche|gosh", "elic", ""),
    code(
        "R|Rscript|octave|julia|elixir|iex|erl|scala|groovy|swift|ghc|ghci|runghc|racket|sbcl|clisp|jshell|raku",
        "eErlpc",
        "eval expr execute run exec load args",
    ),
    code("pwsh|powershell|powershell.exe", "cCeEf", "command"),
    code(
        "psql|mysql|mariadb|mongo|mongosh|redis-cli|clickhouse-client",
        "cefoLTx",
        "command execute file output eval pager pset tee init-command",
    ),
    // Programs whose options run, load or write something.
    plain(
        "git",
        "c",
        "config-env exec-path git-dir upload-pack receive-pack exec extcmd output ext-diff textconv open-files-in-pager editor *ext::*",
    ),
    plain("git clone", "uc", "config template"),
    plain("git grep", "O", ""),
    plain("git rebase", "xi", "interactive"),
    plain("git difftool", "xt", "tool"),
    plain(
        "git archive|git format-patch|git bundle",
        "o",
        "output-directory remote",
    ),
    plain("git commit|git tag|git merge", "e", "edit"),
    plain("git init", "", "template"),
    plain(
        "git add|git checkout|git reset|git stash",
        "ie",
        "interactive edit",
    ),
    plain(
        "find",
        "",
        "-exec -execdir -ok -okdir -delete -fprint* -fls",
    ),
    plain("fd|fdfind", "xX", "exec exec-batch"),
    plain(
        "tar|bsdtar|gtar",
        "IF",
        "checkpoint-action to-command use-compress-program info-script new-volume-script rmt-command rsh-command",
    ),
    plain("cpio", "", "rsh-command"),
    plain("zip", "T", "unzip-command"),
    plain("rsync", "eM", "rsh rsync-path remote-option config daemon"),
    plain("scp|sftp", "oSFDbJ", ""),
    plain(
        "curl",
        "oOKJcDwQE",
        "output remote-name remote-name-all remote-header-name config output-dir dump-header cookie-jar write-out trace trace-ascii stderr libcurl etag-save hsts alt-svc engine quote next",
    ),
    plain(
        "wget|wget2",
        "OoaPiexU",
        "output-document output-file append-output directory-prefix execute config use-askpass input-file save-cookies post-file body-file warc-file",
    ),
    plain(
        "aria2c|axel",
        "odix",
        "on-download-complete on-download-start conf-path",
    ),
    plain("nc|netcat|ncat", "ec", "exec sh-exec lua-exec"),
    plain("sort", "oT", "output compress-program temporary-directory"),
    plain("split|csplit", "", "filter"),
    plain("rg", "", "pre pre-glob hostname-bin"),
    plain("ag|ack|bat|batcat", "", "pager"),
    plain("less|more|most", "oOkK", "log-file lesskey* +*"),
    plain("man", "PHC", "pager html config-file"),
    plain("make|gmake|bmake", "fEI", "file makefile eval *=*"),
    plain("ninja|samu", "ft", ""),
    plain("cmake", "EPC", "open"),
    plain(
        "gradle|gradlew",
        "Ibc",
        "init-script build-file settings-file",
    ),
    plain("mvn|mvnw", "fs", "*exec:*"),
    plain("cargo", "Z", "config manifest-path"),
    plain("rustc", "C", "codegen"),
    plain(
        "go",
        "",
        "exec toolexec vettool overlay modfile -exec* -toolexec* -vettool* -overlay* -modfile* -ldflags* -gcflags* -compiler*",
    ),
    plain(
        "gcc|cc|clang|g++|c++|clang++|ld|tcc",
        "BT",
        "-wrapper -specs* -fplugin* -fuse-ld* @*",
    ),
    plain(
        "npm|pnpm|yarn",
        "",
        "script-shell node-options globalconfig userconfig prefix shell ignore-scripts",
    ),
    plain(
        "pip|uv",
        "",
        "global-option install-option config-settings python",
    ),
    plain("apt|apt-get|aptitude", "oc", "option config-file"),
    plain("dpkg", "", "pre-invoke post-invoke root admindir instdir"),
    plain("docker|podman|nerdctl", "H", "config host"),
    plain("kubectl|oc", "", "kubeconfig as"),
    plain("helm", "", "post-renderer kubeconfig"),
    plain("terraform|tofu", "", "-chdir* -var-file*"),
    plain("systemctl|journalctl", "HM", "host machine root"),
    plain("gh", "", "editor web"),
    plain("openssl", "", "-engine -provider* -config -out* -writerand"),
    plain("tcpdump", "zwV", ""),
    plain("nmap", "o", "script datadir"),
    plain("ffmpeg|ffprobe", "", "*pipe:* *concat:* -f*"),
    plain(
        "convert|magick|mogrify|identify",
        "",
        "*msl:* *ephemeral:* *|* *@*",
    ),
    plain("printf", "v", ""),
    plain("jobs", "x", ""),
    plain("install|shuf|iconv|strip", "so", "strip-program output"),
    plain("file", "Cm", "magic-file compile"),
    plain("rpm", "E", "eval pipe root"),
    plain("hg", "", "config cwd"),
    plain(
        "svn",
        "",
        "config-option config-dir diff-cmd diff3-cmd editor-cmd merge-tool",
    ),
    plain("jj", "", "config config-file config-toml tool"),
    plain("test|[", "vR", ""),
    plain("yq", "i", "inplace split-exp"),
    plain("ip", "b", "batch"),
    plain(
        "java",
        "",
        "-javaagent* -agentlib* -agentpath* @* -XX:OnError* -XX:OnOutOfMemoryError*",
    ),
    plain("ctags", "", "options"),
    plain("tree", "o", ""),
    plain("xmllint|xsltproc", "o", "output shell"),
    plain(
        "pandoc",
        "oFL",
        "output filter lua-filter pdf-engine defaults",
    ),
    plain("pytest|py.test", "pc", "rootdir confcutdir"),
    plain(
        "eslint|prettier|jest|vitest|tsc|webpack|vite|rollup",
        "c",
        "config plugin resolve-plugins-relative-to rulesdir",
    ),
    plain("ssh-keygen|ssh-add|ssh-agent|ssh-keyscan", "DPwsf", ""),
    plain(
        "gpg|gpg2",
        "",
        "*-program photo-viewer load-extension options",
    ),
    plain(
        "vagrant|packer|ansible|ansible-playbook",
        "ame",
        "args module-name extra-vars",
    ),
];
