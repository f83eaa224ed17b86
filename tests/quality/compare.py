"""What two sets of logits [T, V] have to do with each other: divergence, agreement of the first choice, perplexity."""
import numpy


def log_softmax(logits):
    """Row by row in float64; logits [N, V]."""
    shifted = logits.astype(numpy.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def divergence(reference, candidate, rows=64):
    """KL(reference || candidate) per position [T], and the share of positions whose most likely token is the same."""
    if reference.shape != candidate.shape:
        raise ValueError(f"shapes differ: {reference.shape} and {candidate.shape}")
    kl = numpy.empty(len(reference))
    same = 0
    for start in range(0, len(reference), rows):  # in slices: a whole float64 copy would be large
        p, q = log_softmax(reference[start:start + rows]), log_softmax(candidate[start:start + rows])
        kl[start:start + rows] = (numpy.exp(p) * (p - q)).sum(axis=-1)
        same += int((p.argmax(axis=-1) == q.argmax(axis=-1)).sum())
    return kl, same / len(reference)
