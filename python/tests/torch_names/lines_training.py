"""Optimizers, schedulers, gradients by tensors, data sets and distributions."""

_START = "m = nn.Linear(4, 3); m.weight.data.copy_(X.data); m.bias.data.copy_(V3.data); "
_STEPS = "[(o.zero_grad(), (m(Y) ** 2).sum().backward(), o.step()) for _ in range(4)]; (m.weight, m.bias)"
_OPTIMIZERS = [
    "SGD(m.parameters(), lr=0.05, momentum=0.9, foreach=True)", "Adam(m.parameters(), lr=0.05, fused=False)", "AdamW(m.parameters(), lr=0.05, foreach=False)",
    "Adagrad(m.parameters(), lr=0.05, foreach=False)", "RMSprop(m.parameters(), lr=0.05, foreach=False)",
    *(f"{name}(m.parameters(){options})" for name in ("Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop", "Adafactor") for options in ("", ", lr=0.05", ", maximize=True")),
    *(f"{name}(m.parameters(), lr=0.05, weight_decay=0.1)" for name in ("Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Adafactor")),
    "Adadelta(m.parameters(), 0.5, 0.8, 1e-3)", "NAdam(m.parameters(), lr=0.05, momentum_decay=0.01, decoupled_weight_decay=True, weight_decay=0.1)",
    "RAdam(m.parameters(), lr=0.05, betas=(0.5, 0.6), decoupled_weight_decay=True, weight_decay=0.1)", "ASGD(m.parameters(), lr=0.05, t0=1, lambd=0.01)",
    "Rprop(m.parameters(), 0.05, (0.4, 1.5), (0.01, 0.1))", "Adafactor(m.parameters(), lr=0.1, d=2.0, beta2_decay=-0.5)", "Adadelta(m.parameters(), lr=-1)", "Adamax([{'params': [m.weight], 'lr': 0.1}, {'params': [m.bias]}])",
]  # fmt: skip
_SCHEDULED = "o = optim.SGD([nn.Parameter(X)], lr=0.5, momentum=0.9); s = optim.lr_scheduler."
_RATES = "r = [(o.step(), s.step(), o.param_groups[0]['lr'], o.param_groups[0]['momentum'])[2:] for _ in range(9)]; r"

TRAINING = [
    *(f"{_START}o = optim.{one}; {_STEPS}" for one in _OPTIMIZERS),
    f"{_START}o = optim.LBFGS(m.parameters(), lr=0.1, max_iter=5); c = lambda: (o.zero_grad(), (l := (m(Y) ** 2).sum()).backward(), l)[2]; l = [o.step(c) for _ in range(3)]; (l, m.weight, m.bias)",
    f"{_START}o = optim.Adadelta(m.parameters()); {_STEPS.split('; ')[0]}; sorted(o.state_dict()['state'][0])",
    f"{_START}o = optim.NAdam(m.parameters()); {_STEPS.split('; ')[0]}; p = optim.NAdam(m.parameters()); p.load_state_dict(o.state_dict()); o = p; {_STEPS}",
    *(f"{_SCHEDULED}{one}; {_RATES}" for one in (
        "MultiplicativeLR(o, lambda epoch: 0.9)", "MultiplicativeLR(o, lr_lambda=[lambda epoch: 1 - 0.1 * epoch])", "CyclicLR(o, 0.1, 1.0, 3)", "CyclicLR(o, 0.1, 1.0, 2, 3, 'triangular2')",
        "CyclicLR(o, 0.1, 1.0, step_size_up=2, mode='exp_range', gamma=0.9, cycle_momentum=False)", "CyclicLR(o, 0.1, 1.0, 2, scale_fn=lambda x: 0.5 ** x, scale_mode='iterations')",
        "ChainedScheduler([optim.lr_scheduler.ExponentialLR(o, 0.9), optim.lr_scheduler.StepLR(o, 2, 0.5)])")),
    "torch.autograd.grad((X * X).sum(), X)", "torch.autograd.grad(X * Y, [X, Y], grad_outputs=torch.ones(3, 4))", "torch.autograd.grad(X * Y, X)",
    "y = X * 2; torch.autograd.grad((y * y).sum(), y)", "g = torch.autograd.grad((X ** 3).sum(), X, create_graph=True)[0]; torch.autograd.grad(g.sum(), X)",
    "g, = torch.autograd.grad((X ** 3).sum(), X, create_graph=True); g", "torch.autograd.grad(X.sum(), (X, Y), allow_unused=True)", "torch.autograd.grad([X.sum(), (X * X).sum()], X)",
    "d = Y.detach(); h = (X + d) / 2; g = torch.autograd.grad((h ** 3).sum(), h, create_graph=True)[0]; ((g.norm(2, dim=1) - 1) ** 2).mean()",
    "torch.autograd.backward([X.sum(), (X * Y).sum()]); (X.grad, Y.grad)", "c = torch.no_grad(); c.__enter__(); r = (X * 2).requires_grad; c.__exit__(None, None, None); (r, (X * 2).requires_grad)",
    "torch.set_grad_enabled(False); r = (X * 2).requires_grad; torch.set_grad_enabled(True); (r, (X * 2).requires_grad)",
    "f = torch.no_grad()(lambda: (X * 2).requires_grad); f()", "f = torch.inference_mode()(lambda: (X * 2).requires_grad); f()", "f = torch.enable_grad()(lambda: (X * 2).requires_grad); f()",
    *(f"d = torch.distributions.{one}; (d.log_prob({value}), d.entropy(), d.sample((5,)).shape[0])" for one, value in (
        ("Normal(X, P)", "Y"), ("Normal(0.0, 1.0)", "V"), ("Uniform(-3.0, 3.0)", "X"), ("Bernoulli(P)", "MIXED"), ("Bernoulli(logits=X)", "MIXED"), ("Categorical(P)", "C"), ("Categorical(logits=X)", "C"), ("Exponential(P)", "P"))),
    *(f"torch.distributions.{one}.mean" for one in ("Normal(X, P)", "Uniform(X - 3, X + 3)", "Bernoulli(P)", "Exponential(P)")),
    *(f"torch.distributions.{one}.variance" for one in ("Normal(X, P)", "Uniform(X - 3, X + 3)", "Bernoulli(P)", "Exponential(P)")),
    "torch.distributions.kl_divergence(torch.distributions.Normal(X, P), torch.distributions.Normal(Y, P))", "torch.distributions.kl_divergence(torch.distributions.Categorical(P), torch.distributions.Categorical(logits=X))",
    "torch.distributions.Normal(X, X)", "torch.distributions.Categorical(P).sample().shape", "torch.distributions.Categorical(P).sample((2,)).dtype", "torch.distributions.Normal(X, P).cdf(Y)",
    "len(torch.utils.data.TensorDataset(X, Y))", "torch.utils.data.TensorDataset(X, Y)[1]", "torch.utils.data.TensorDataset(X, V)",
    "list(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, C), batch_size=2))", "list(torch.utils.data.DataLoader(X, batch_size=2, drop_last=True))", "len(torch.utils.data.DataLoader(X, 2))",
    "list(torch.utils.data.DataLoader([1, 2, 3], batch_size=2))", "list(torch.utils.data.DataLoader([1.5, 2.5], batch_size=2))", "list(torch.utils.data.DataLoader([(np.ones(2), 1), (np.zeros(2), 2)], 2))",
    "list(torch.utils.data.DataLoader([{'a': 1, 'b': 'x'}, {'a': 2, 'b': 'y'}], 2))[0]['a']", "list(torch.utils.data.DataLoader(X, batch_size=None))", "list(torch.utils.data.DataLoader(X, sampler=[2, 0], batch_size=1))",
    "list(torch.utils.data.DataLoader(X, batch_sampler=[[0, 2], [1]]))", "torch.utils.data.DataLoader(X, shuffle=True, sampler=[0])", "torch.utils.data.DataLoader(X, batch_size=0)",
    "[len(s) for s in torch.utils.data.random_split(X, [1, 2])]", "[len(s) for s in torch.utils.data.random_split(range(10), [0.5, 0.25, 0.25])]", "torch.utils.data.random_split(X, [1, 1])",
    "torch.utils.data.Subset(X, [2, 0])[1]", "len(torch.utils.data.ConcatDataset([X, Y]))", "torch.utils.data.ConcatDataset([X, Y])[4]", "sorted(torch.utils.data.RandomSampler(X))", "len(list(torch.utils.data.WeightedRandomSampler([1.0, 2.0], 5)))",
    "list(torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(range(5)), 2, False))", "list(torch.utils.data.BatchSampler(range(5), batch_size=2, drop_last=True))",
    "len(torch.utils.data.distributed.DistributedSampler(range(5), 2, 1, shuffle=False))", "list(torch.utils.data.distributed.DistributedSampler(range(5), 2, 1, shuffle=False))",
    "s = torch.amp.GradScaler('cpu', enabled=False); s.get_scale()", "torch.get_default_dtype()",
]  # fmt: skip
