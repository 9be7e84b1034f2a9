//! Tables and statements.

use crate::exact::Key;

/// The version of rows. Rows of another one are as if they weren't there.
pub(super) const VERSION: i32 = 1;

/// Makes what is missing. Processes that start at the same time do it one after another.
pub(super) const SCHEMA: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(8385555423712514);
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS tapri_semantic_counts (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    erasures bigint NOT NULL DEFAULT 0, alarms bigint NOT NULL DEFAULT 0);
INSERT INTO tapri_semantic_counts DEFAULT VALUES ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS tapri_semantic_questions (
    id bigint PRIMARY KEY, version integer NOT NULL, scope bytea NOT NULL, encoder text NOT NULL,
    answer bytea NOT NULL, question text NOT NULL, vector vector NOT NULL, digest bytea NOT NULL,
    tenant text NOT NULL, route text NOT NULL, model text NOT NULL, session text, document text,
    created bigint NOT NULL);
CREATE INDEX IF NOT EXISTS tapri_semantic_questions_scope
    ON tapri_semantic_questions (scope, encoder, version);
CREATE TABLE IF NOT EXISTS tapri_semantic_labels (
    id bigserial PRIMARY KEY, version integer NOT NULL, entry bigint NOT NULL, tenant text NOT NULL,
    route text NOT NULL, model text NOT NULL, session text, document text, similarity double precision NOT NULL,
    verdict text NOT NULL, judge text NOT NULL, served boolean NOT NULL, created bigint NOT NULL,
    stored_question text NOT NULL, stored_answer text NOT NULL, asked_question text NOT NULL,
    asked_answer text NOT NULL);
COMMIT;
";

/// The counts, and the nearest rows of a scope, as of one moment. A vector of another width can't be compared, and
/// comes first, so that someone notices.
pub(super) const NEAREST: &str = "
WITH counts AS (SELECT erasures, alarms FROM tapri_semantic_counts)
SELECT counts.erasures, counts.alarms, near.id, near.answer, near.question, near.vector, near.digest, near.created
FROM counts LEFT JOIN LATERAL (
    SELECT id, answer, question, vector, digest, created,
        CASE WHEN vector_dims(vector) = $4 THEN vector <#> $5 ELSE '-Infinity'::float8 END AS distance
    FROM tapri_semantic_questions WHERE scope = $1 AND encoder = $2 AND version = $3
    ORDER BY distance LIMIT $6
) near ON true";

pub(super) const KEEP: &str = "
WITH counts AS (SELECT erasures FROM tapri_semantic_counts FOR SHARE)
INSERT INTO tapri_semantic_questions
    (id, version, scope, encoder, answer, question, vector, digest, tenant, route, model, session, document, created)
SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 FROM counts WHERE counts.erasures = $15
ON CONFLICT (id) DO UPDATE SET version = excluded.version, scope = excluded.scope, encoder = excluded.encoder,
    answer = excluded.answer, question = excluded.question, vector = excluded.vector, digest = excluded.digest,
    tenant = excluded.tenant, route = excluded.route, model = excluded.model, session = excluded.session,
    document = excluded.document, created = excluded.created";

pub(super) const TRIM: &str = "
DELETE FROM tapri_semantic_questions WHERE id IN (
    SELECT id FROM tapri_semantic_questions WHERE scope = $1 ORDER BY created DESC, id DESC OFFSET $2)";

pub(super) const REMOVE: &str = "DELETE FROM tapri_semantic_questions WHERE id = $1";

/// A label that speaks for its route.
pub(super) fn label_for() -> String {
    label("WITH counts AS (SELECT erasures FROM tapri_semantic_counts FOR SHARE)")
}

/// One that speaks against it, which every process has to know before it serves again.
pub(super) fn label_against() -> String {
    label(
        "WITH counts AS (UPDATE tapri_semantic_counts SET alarms = alarms + 1 WHERE erasures = $17 RETURNING erasures)",
    )
}

fn label(counts: &str) -> String {
    format!(
        "{counts}
        INSERT INTO tapri_semantic_labels (version, entry, tenant, route, model, session, document, similarity,
            verdict, judge, served, created, stored_question, stored_answer, asked_question, asked_answer)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
        FROM counts WHERE counts.erasures = $17"
    )
}

pub(super) const COUNTS: &str =
    "SELECT alarms, (SELECT count(*) FROM tapri_semantic_questions) FROM tapri_semantic_counts";

pub(super) const LABELS: &str =
    "SELECT route, similarity, verdict FROM tapri_semantic_labels WHERE version = $1 ORDER BY id";

pub(super) const UNSETTLED: &str = "
SELECT id, route, similarity, stored_question, stored_answer, asked_question, asked_answer
FROM tapri_semantic_labels WHERE version = $1 AND verdict = 'unsettled' ORDER BY id LIMIT $2";

pub(super) const SETTLE: &str = "
WITH settled AS (
    UPDATE tapri_semantic_labels SET verdict = $2, judge = 'person' WHERE id = $1 AND verdict = 'unsettled'
    RETURNING route, similarity),
alarm AS (UPDATE tapri_semantic_counts SET alarms = alarms + 1 WHERE EXISTS (SELECT 1 FROM settled))
SELECT route, similarity FROM settled";

pub(super) const BEGIN_ERASURE: &str =
    "BEGIN; UPDATE tapri_semantic_counts SET erasures = erasures + 1, alarms = alarms + 1";

pub(super) const ERASE_QUESTIONS: &str = "DELETE FROM tapri_semantic_questions
WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR route = $2) AND ($3::text IS NULL OR model = $3)
    AND ($4::text IS NULL OR session = $4) AND ($5::text IS NULL OR document = $5)
    AND ($6::bigint IS NULL OR created < $6)";

pub(super) const ERASE_LABELS: &str = "DELETE FROM tapri_semantic_labels
WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR route = $2) AND ($3::text IS NULL OR model = $3)
    AND ($4::text IS NULL OR session = $4) AND ($5::text IS NULL OR document = $5)
    AND ($6::bigint IS NULL OR created < $6)";

/// Of what a row says that decides over answers, each part with its length. Whoever can write rows can write digests as
/// well: it finds mix-ups and broken rows, and doesn't keep an attacker out of the database.
pub(super) fn digest(
    scope: &Key,
    answer: &Key,
    encoder: &str,
    question: &str,
    vector: &[f32],
    created: i64,
) -> Vec<u8> {
    let mut hash = blake3::Hasher::new_derive_key("tapri semantic row v1");
    hash.update(scope.as_bytes());
    hash.update(answer.as_bytes());
    hash.update(&created.to_le_bytes());
    for part in [encoder.as_bytes(), question.as_bytes()] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    for x in vector {
        hash.update(&x.to_le_bytes());
    }
    hash.finalize().as_bytes().to_vec()
}
