//! Source files of the known drivers, from `drivers/` of this repository. A driver is a program
//! around one Kafka client library.

/// A file that a driver is built from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    /// Path relative to the directory of the driver.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// Lists files of one directory of `drivers/`, and after the semicolon shared files of other
/// directories.
macro_rules! sources {
    ($dir:literal: $($path:literal)*; $($other:literal: $added:literal)*) => {
        &[
            $(SourceFile {
                path: $path,
                text: include_str!(concat!("../../../drivers/", $dir, "/", $path)),
            },)*
            $(SourceFile {
                path: $added,
                text: include_str!(concat!("../../../drivers/", $other, "/", $added)),
            },)*
        ]
    };
}

pub(super) const JAVA: &[SourceFile] = sources!("java":
    "pom.xml" "src/main/java/weir/driver/ClientFile.java"
    "src/main/java/weir/driver/Command.java" "src/main/java/weir/driver/Consuming.java"
    "src/main/java/weir/driver/Copying.java"
    "src/main/java/weir/driver/Delivery.java" "src/main/java/weir/driver/Distribution.java"
    "src/main/java/weir/driver/Main.java" "src/main/java/weir/driver/Pacer.java"
    "src/main/java/weir/driver/Producing.java" "src/main/java/weir/driver/Roundtrip.java"
    "src/main/java/weir/driver/RunToken.java"
    "src/main/java/weir/driver/Settings.java" "src/main/java/weir/driver/Steady.java"
    "src/main/java/weir/driver/Usage.java" "src/main/java/weir/driver/Values.java"
;);
pub(super) const FRANZ_GO: &[SourceFile] = sources!("franz-go":
    "clientfile.go" "consume.go" "copy.go" "go.mod" "go.sum" "main.go" "measure.go"
    "produce.go" "roundtrip.go" "settings.go" "steady.go"
;);
pub(super) const CONFLUENT_KAFKA: &[SourceFile] = sources!("confluent-kafka":
    "clients.py" "driver.py" "requirements.txt" "roundtrip.py" "settings.py" "steady.py"
; "python": "weir_driver.py");
pub(super) const AIOKAFKA: &[SourceFile] = sources!("aiokafka":
    "clients.py" "driver.py" "requirements.txt" "roundtrip.py" "settings.py" "steady.py"
; "python": "weir_driver.py");
pub(super) const KAFKAJS: &[SourceFile] = sources!("kafkajs":
    "consume.js" "copy.js" "driver.js" "measure.js" "pace.js" "package-lock.json" "package.json"
    "produce.js" "roundtrip.js" "settings.js" "steady.js"
;);
pub(super) const DOTNET_CONFLUENT: &[SourceFile] = sources!("dotnet":
    "driver/ClientFile.cs" "driver/Command.cs" "driver/Consuming.cs" "driver/Library.cs"
    "driver/Producing.cs" "driver/Program.cs" "driver/Roundtrip.cs" "driver/Steady.cs"
    "driver/Usage.cs" "driver/Values.cs"
    "confluent/ConfluentLibrary.cs" "confluent/Entry.cs" "confluent/confluent.csproj"
    "confluent/packages.lock.json"
;);
pub(super) const DOTNET_KNET: &[SourceFile] = sources!("dotnet":
    "driver/ClientFile.cs" "driver/Command.cs" "driver/Consuming.cs" "driver/Library.cs"
    "driver/Producing.cs" "driver/Program.cs" "driver/Roundtrip.cs" "driver/Steady.cs"
    "driver/Usage.cs" "driver/Values.cs"
    "knet/Core.cs" "knet/Entry.cs" "knet/JavaSecurity.cs" "knet/KNetLibrary.cs"
    "knet/knet.csproj"
;);

/// Returns a hash of the sources, for the name of their build cache entry.
pub(super) fn hash<'a>(sources: impl IntoIterator<Item = &'a SourceFile>) -> String {
    let fields = sources
        .into_iter()
        .flat_map(|source| [source.path, source.text]);
    // UTF-8 never contains 0xff, so different lists give different bytes.
    let bytes = fields.flat_map(|field| field.bytes().chain([0xff]));
    let hash = bytes.fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    });
    format!("{hash:016x}")
}

/// FNV-1a, 64 bits. The cache belongs to the user, so the hash need not resist attacks.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn hashes_distinguish_lists() {
        let source = |path, text| SourceFile { path, text };
        let (ab, a, b) = (source("ab", ""), source("a", "b"), source("a", "c"));
        let hashes: BTreeSet<String> = [vec![&ab], vec![&a], vec![&b], vec![&a, &b], vec![]]
            .iter()
            .map(|list| hash(list.iter().copied()))
            .collect();
        assert_eq!(hashes.len(), 5);
        assert_eq!(hash([]), "cbf29ce484222325");
    }

    /// Extensions of the files that a driver is built from.
    const SOURCE_EXTENSIONS: [&str; 11] = [
        "java", "xml", "go", "mod", "sum", "py", "txt", "js", "json", "cs", "csproj",
    ];

    #[test]
    fn all_source_files_are_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers");
        let dirs = [
            ("java", vec![JAVA]),
            ("franz-go", vec![FRANZ_GO]),
            ("confluent-kafka", vec![CONFLUENT_KAFKA]),
            ("aiokafka", vec![AIOKAFKA]),
            ("kafkajs", vec![KAFKAJS]),
            ("dotnet", vec![DOTNET_CONFLUENT, DOTNET_KNET]),
        ];
        for (dir, sources) in dirs {
            let dir = root.join(dir);
            let mut found = Vec::new();
            files(&dir, &dir, &mut found);
            for path in &found {
                let mut listed = sources.iter().copied().flatten();
                let listed = listed.any(|source| source.path == path);
                assert!(listed, "the list of {} lacks {path}", dir.display());
            }
            assert!(!found.is_empty(), "{}", dir.display());
        }
    }

    /// Collects the files that a driver is built from, without build output.
    fn files(root: &Path, dir: &Path, found: &mut Vec<String>) {
        const OUTPUT_DIRS: [&str; 6] =
            ["target", "node_modules", "bin", "obj", "out", "__pycache__"];
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !OUTPUT_DIRS.contains(&name) {
                files(root, &path, found);
            } else if path
                .extension()
                .is_some_and(|ending| SOURCE_EXTENSIONS.iter().any(|one| ending == *one))
            {
                let path = path.strip_prefix(root).unwrap();
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
}
