//! The check at the start: an embedder that puts everything in one place would answer any question with any answer
//! (seen in the field with a gateway whose embedder was misconfigured), so it is refused before it is used.

use crate::embedder::{Embed, EmbedError};
use crate::vector::{TOLERANCE, dot, norm};

/// Texts that have nothing to do with each other.
const UNRELATED: [&str; 8] = [
    "How do I renew a parking permit?",
    "The orchestra played Brahms until midnight.",
    "Photosynthesis turns light into sugar.",
    "A goalkeeper may not hold the ball for long.",
    "Quarterly revenue fell by four percent.",
    "Knead the dough and let it rest for an hour.",
    "The glacier has retreated since the last survey.",
    "Press the red button to stop the lathe.",
];

/// Two pairs of texts that mean the same; each must be nearer than the unrelated ones are on average.
const RELATED: [(&str, &str); 2] = [
    ("What time do you open?", "When do you open?"),
    ("The cat sleeps on the sofa.", "A cat is sleeping on the couch."),
];

/// The most that two unrelated texts may have as a cosine, and their average.
const MOST_ALIKE: f32 = 0.9;
const MEAN_ALIKE: f32 = 0.7;

/// Why an embedder is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// It failed.
    #[error("the embedder could not be checked")]
    Failed(#[from] EmbedError),
    /// Its vectors show that nothing may rely on it.
    #[error("the embedder is degenerate: {0}; nothing would be safe to compare, so it is not used")]
    Degenerate(String),
}

/// Embeds a few texts and looks at the vectors: finite, of length 1, one number of dimensions, every direction in use,
/// the same text the same, distinct texts distinct, unrelated texts apart, and texts that mean the same nearer.
///
/// # Errors
/// [`CheckError`], which says what is wrong.
pub fn check(embedder: &dyn Embed) -> Result<(), CheckError> {
    let mut texts = UNRELATED.to_vec();
    texts.extend(RELATED.iter().flat_map(|(a, b)| [*a, *b]));
    texts.push(UNRELATED[0]);
    let found = embedder.embed(&texts)?;
    let wrong = |what: String| Err(CheckError::Degenerate(what));
    if found.len() != texts.len() {
        return wrong(format!("{} vectors came for {} texts", found.len(), texts.len()));
    }
    let vectors: Vec<&[f32]> = found.iter().map(|e| &*e.vector).collect();
    let dimensions = vectors[0].len();
    for vector in &vectors {
        if vector.len() != dimensions || dimensions < 8 {
            return wrong(format!("its vectors have {dimensions} and {} numbers", vector.len()));
        }
        if vector.iter().any(|x| !x.is_finite()) {
            return wrong("a vector holds something that is no number".to_owned());
        }
        if (norm(vector) - 1.0).abs() > TOLERANCE {
            return wrong(format!("a vector has length {:.4}, not 1", norm(vector)));
        }
    }
    let again = dot(vectors[0], vectors[vectors.len() - 1]);
    if again < 1.0 - TOLERANCE {
        return wrong(format!("the same text twice has a cosine of {again:.4}"));
    }
    let unrelated = &vectors[..UNRELATED.len()];
    let variance = total_variance(unrelated);
    if variance < 0.1 {
        return wrong(format!(
            "unrelated texts have a variance of {variance:.4} around their mean"
        ));
    }
    let (mut sum, mut count) = (0.0, 0.0);
    for (i, a) in unrelated.iter().enumerate() {
        for (j, b) in unrelated.iter().enumerate().skip(i + 1) {
            let alike = dot(a, b);
            if alike > MOST_ALIKE {
                return wrong(format!(
                    "'{}' and '{}' have a cosine of {alike:.4}",
                    UNRELATED[i], UNRELATED[j]
                ));
            }
            sum += alike;
            count += 1.0;
        }
    }
    let mean = sum / count;
    if mean > MEAN_ALIKE {
        return wrong(format!("unrelated texts have a cosine of {mean:.4} on average"));
    }
    for (at, (a, b)) in RELATED.iter().enumerate() {
        let first = UNRELATED.len() + 2 * at;
        let alike = dot(vectors[first], vectors[first + 1]);
        if alike < mean + 0.1 {
            return wrong(format!(
                "'{a}' and '{b}' have a cosine of {alike:.4}, and unrelated texts {mean:.4}"
            ));
        }
        if alike > 1.0 - 1e-6 {
            return wrong(format!("'{a}' and '{b}' have the same vector"));
        }
    }
    Ok(())
}

/// The mean squared distance from the mean.
fn total_variance(vectors: &[&[f32]]) -> f32 {
    let count = vectors.len() as f32;
    let mut mean = vec![0.0_f32; vectors[0].len()];
    for vector in vectors {
        mean.iter_mut().zip(*vector).for_each(|(m, x)| *m += x / count);
    }
    // The vectors have length 1.
    1.0 - dot(&mean, &mean)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::letters::Letters;
    use crate::vector::normalise;

    fn refused(fault: fn(&mut Vec<f32>)) -> String {
        check(&Letters(fault)).unwrap_err().to_string()
    }

    #[test]
    fn a_crude_but_honest_embedder_passes() {
        check(&Letters::sound()).unwrap();
    }

    #[test]
    fn degenerate_ones_are_refused_by_name() {
        assert!(refused(|v| v.iter_mut().for_each(|x| *x *= 2.0)).contains("length 2"));
        assert!(refused(|v| v[3] = f32::NAN).contains("no number"));
        assert!(refused(|v| v.truncate(4)).contains("numbers"));
        assert!(refused(Vec::clear).contains("numbers"));
        let constant = refused(|v| {
            v.fill(0.0);
            v[7] = 1.0;
        });
        assert!(constant.contains("variance of 0.0000"), "{constant}");
        // Everything in one narrow cone, as an untrained or a badly pooled encoder puts it.
        let cone = refused(|v| {
            v[0] += 3.0;
            normalise(v);
        });
        assert!(cone.contains("variance") || cone.contains("cosine"), "{cone}");
        // Only the first letter decides.
        let coarse = refused(|v| {
            let first = v.iter().position(|x| *x > 0.0).unwrap_or(0) / 26;
            v.fill(0.0);
            v[first] = 1.0;
        });
        assert!(coarse.contains("variance") || coarse.contains("cosine"), "{coarse}");
    }
}
