"""A small DCGAN (Radford et al. 2016): two optimizers, transposed convolutions, in-place activations, BCELoss."""

import gabbro as torch
import gabbro.nn as nn
import gabbro.optim as optim
import numpy as np

from torch_programs.weights import fill


class Generator(nn.Module):
    def __init__(self, nz=8, ngf=8):
        super(Generator, self).__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        return self.main(input)


class Discriminator(nn.Module):
    def __init__(self, ndf=8):
        super(Discriminator, self).__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input):
        return self.main(input).view(-1, 1).squeeze(1)


def losses(steps=10):
    numbers = np.random.RandomState(0)
    device = torch.device("cpu")
    net_g, net_d = Generator().to(device), Discriminator().to(device)
    fill(torch, net_g)
    fill(torch, net_d)
    for net in (net_g, net_d):
        for module in net.modules():
            if module.__class__.__name__.find("BatchNorm") != -1:
                torch.nn.init.normal_(module.weight, 1.0, 0.0)
                torch.nn.init.zeros_(module.bias)
                module.running_var.fill_(1)
    criterion = nn.BCELoss()
    optimizer_d = optim.Adam(net_d.parameters(), lr=0.002, betas=(0.5, 0.999))
    optimizer_g = optim.Adam(net_g.parameters(), lr=0.002, betas=(0.5, 0.999))
    found = []
    for _ in range(steps):
        real = torch.from_numpy(np.tanh(numbers.randn(6, 1, 16, 16)).astype("float32")).to(device)
        net_d.zero_grad()
        label = torch.full((real.size(0),), 1, dtype=real.dtype, device=device)
        error_real = criterion(net_d(real), label)
        error_real.backward()
        noise = torch.from_numpy(numbers.randn(6, 8, 1, 1).astype("float32"))
        fake = net_g(noise)
        label.fill_(0)
        error_fake = criterion(net_d(fake.detach()), label)
        error_fake.backward()
        optimizer_d.step()
        net_g.zero_grad()
        label.fill_(1)
        error_g = criterion(net_d(fake), label)
        error_g.backward()
        optimizer_g.step()
        found.append((error_real + error_fake).item() + error_g.item())
    return found


if __name__ == "__main__":
    print(losses(50)[-10:])
