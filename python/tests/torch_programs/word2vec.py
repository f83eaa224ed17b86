"""Skip-grams with negative samples (Mikolov et al. 2013), from batches that a DataLoader makes."""

import gabbro as torch
import gabbro.nn as nn
import gabbro.nn.functional as F
from gabbro.utils.data import DataLoader, Dataset

from torch_programs.weights import fill

TEXT = "the quick brown fox jumps over the lazy dog and the quick dog jumps over the brown fox again " * 8


class SkipGrams(Dataset):
    def __init__(self, words, window, negatives):
        vocabulary = sorted(set(words))
        self.stoi = {word: number for number, word in enumerate(vocabulary)}
        ids = [self.stoi[word] for word in words]
        self.pairs = [(ids[i], ids[j]) for i in range(len(ids))
                      for j in range(max(0, i - window), min(len(ids), i + window + 1)) if i != j]  # fmt: skip
        self.negatives = negatives

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        center, context = self.pairs[index]
        others = torch.LongTensor([(index * 7 + 3 * n + 1) % len(self.stoi) for n in range(self.negatives)])
        return center, context, others


class Word2Vec(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.centers = nn.Embedding(vocab_size, dim)
        self.contexts = nn.Embedding(vocab_size, dim)
        self.contexts.weight.data.uniform_(-0.5 / dim, 0.5 / dim)

    def forward(self, center, context, negative):
        c = self.centers(center)
        positive_score = torch.sum(torch.mul(c, self.contexts(context)), dim=1).clamp(-10, 10)
        negative_score = torch.bmm(self.contexts(negative), c.unsqueeze(2)).squeeze(2).clamp(min=-10, max=10)
        return -(F.logsigmoid(positive_score) + F.logsigmoid(-negative_score).sum(dim=1)).mean()


def losses(steps=10):
    torch.manual_seed(0)
    data = SkipGrams(TEXT.split(), 2, 5)
    model = Word2Vec(len(data.stoi), 16)
    fill(torch, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - 0.01 * step)
    found = []
    while len(found) < steps:
        for center, context, negative in DataLoader(data, batch_size=64, shuffle=False, drop_last=True):
            optimizer.zero_grad()
            loss = model(center.long(), context, negative)
            loss.backward()
            optimizer.step()
            scheduler.step()
            found.append(loss.item())
    vectors = F.normalize(model.centers.weight.detach(), dim=1)
    nearest = (vectors @ vectors.t()).fill_diagonal_(-1).topk(1, dim=1).indices.squeeze(1)
    assert nearest.shape == (len(data.stoi),) and nearest.dtype == torch.int64
    return found[:steps]


if __name__ == "__main__":
    print(losses(100)[-10:])
