"""Deep Q-learning (Mnih et al. 2015) on a chain of states, with a replay memory and a target network."""

import random
from collections import deque, namedtuple

import gabbro as torch
import gabbro.nn as nn
import gabbro.nn.functional as F
import gabbro.optim as optim

from torch_programs.weights import fill

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward", "done"))
STATES, ACTIONS = 8, 2


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, generator, batch_size):
        return generator.sample(list(self.memory), batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


class Chain:
    """Right leads to a reward at the end of a chain of states, left back to the first."""

    def reset(self):
        self.at = 0
        return self.observation()

    def observation(self):
        return [float(self.at == n) for n in range(STATES)]

    def step(self, action):
        self.at = self.at + 1 if action == 1 else 0
        done = self.at == STATES - 1
        return self.observation(), 1.0 if done else -0.01, done


def losses(steps=10, batch_size=16, gamma=0.9, tau=0.05):
    generator = random.Random(3)
    torch.manual_seed(0)
    device = torch.device("cpu")
    policy_net = DQN(STATES, ACTIONS).to(device)
    target_net = DQN(STATES, ACTIONS).to(device)
    fill(torch, policy_net)
    target_net.load_state_dict(policy_net.state_dict())
    optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
    memory, found = ReplayMemory(1000), []
    env = Chain()
    state = torch.tensor(env.reset(), dtype=torch.float32, device=device).unsqueeze(0)
    while len(found) < steps:
        if generator.random() > 0.5:
            with torch.no_grad():
                action = policy_net(state).max(1).indices.view(1, 1)
        else:
            action = torch.tensor([[generator.randrange(ACTIONS)]], device=device, dtype=torch.long)
        observation, reward, done = env.step(action.item())
        next_state = torch.tensor(observation, dtype=torch.float32, device=device).unsqueeze(0)
        memory.push(state, action, next_state, torch.tensor([reward]), torch.tensor([done]))
        state = torch.tensor(env.reset()).unsqueeze(0) if done else next_state
        if len(memory) < batch_size:
            continue
        batch = Transition(*zip(*memory.sample(generator, batch_size)))
        not_final = ~torch.cat(batch.done)
        values = policy_net(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        next_values = torch.zeros(batch_size, device=device)
        with torch.no_grad():
            after = torch.cat(batch.next_state)[not_final]
            next_values[not_final] = target_net(after).max(1).values
        expected = next_values * gamma + torch.cat(batch.reward)
        loss = nn.SmoothL1Loss()(values, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy_net.parameters(), 100)
        optimizer.step()
        target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
        for key in policy_state:
            target_state[key] = policy_state[key] * tau + target_state[key] * (1 - tau)
        target_net.load_state_dict(target_state)
        found.append(loss.item())
    return found


if __name__ == "__main__":
    print(losses(200)[-10:])
