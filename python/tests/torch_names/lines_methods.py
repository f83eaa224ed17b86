"""Methods and attributes of tensors, and their in-place forms."""

_IN_PLACE = """abs ceil cos exp floor neg relu round sigmoid sign sin square tanh trunc sqrt""".split()
_CASTS = "float double half long int short bool bfloat16".split()
_C = "a = X.clone(); "

METHODS = [
    *(f"X.{name}()" for name in """abs exp sin sum mean std var max min argmax any all t numel dim size relu sigmoid tanh neg
      clone contiguous cpu detach flatten squeeze tolist nonzero cumsum softmax norm sort argsort prod square item trace logsumexp
      is_contiguous element_size view reshape repeat expand unbind type nelement ndimension is_floating_point get_device
      """.split()),
    *(f"X.{name}()" for name in _CASTS), *(f"N.{name}()" for name in _CASTS), *(f"X.{name}().dtype" for name in _CASTS),
    *(f"X.{name}" for name in ("shape", "ndim", "dtype", "T", "requires_grad", "is_leaf", "data", "is_cuda", "mT", "itemsize",
                               "nbytes", "grad")),
    *(f"CUBE.{name}(1)" for name in ("sum", "mean", "max", "min", "argmax", "std", "var", "cumsum", "softmax", "log_softmax", "sort",
                                     "prod", "any", "all", "norm", "median", "topk", "unbind", "amax", "unsqueeze", "argsort", "size",
                                     "squeeze", "flatten", "chunk", "split", "logsumexp", "cumprod", "select", "count_nonzero")),
    *(f"CUBE.{name}(dim=1)" for name in ("sum", "mean", "max", "min", "argmax", "std", "softmax", "sort", "cumsum", "size")),
    *(f"CUBE.{name}(dim=-1, keepdim=True)" for name in ("sum", "mean", "max", "argmin", "var", "amax", "logsumexp", "any")),
    "X.max(1).indices", "X.max(1)[0]", "X.max(dim=1).values", "X.sum((0, 1))", "X.sum(0, True)", "X.std(1, False)", "X.var(0, unbiased=True)",
    "X.size(0)", "X.size(-1)", "X.size(5)", "X.size()[1]", "S.size()", "X.shape.numel()",
    "X.view(4, 3)", "X.view((2, -1))", "X.view(-1)", "X.view([12])", "X.view(5, 2)", "X.view(torch.int32)", "X.reshape(2, 6)",
    "X.view_as(Y.reshape(2, 6))", "X.reshape_as(Y)", "X.unsqueeze(0)", "X.unsqueeze(dim=-1)", "ONE.squeeze(0)", "ONE.squeeze(1)",
    "CUBE.flatten(1)", "CUBE.flatten(start_dim=0, end_dim=1)", "CUBE.transpose(0, 1)", "CUBE.transpose(-1, -2)", "CUBE.permute(2, 0, 1)",
    "CUBE.permute((1, 0, 2))", "CUBE.permute(dims=(1, 0, 2))", "CUBE.swapaxes(0, 1)", "CUBE.movedim(0, 1)", "V.expand(3, 4)",
    "V.expand(3, -1)", "ONE.expand(2, 3, 5)", "ONE.expand((2, -1, 5))", "X.expand(2, 4)", "V.expand_as(X)", "V.repeat(2)", "X.repeat(2, 1)",
    "X.repeat((1, 2))", "X.repeat(2)", "V.repeat(2, 2)", "X.repeat_interleave(2, 0)", "X.repeat_interleave(2, dim=1)", "V.tile(2)",
    "X.tile((2, 1))", "CUBE.split(2, 1)", "CUBE.split([1, 2], dim=1)", "CUBE.split(split_size=2, dim=-1)", "CUBE.chunk(2, -1)",
    "CUBE.chunk(2, dim=2)", "X.unbind(1)", "X.narrow(0, 1, 2)", "X.roll(1, 0)", "X.flip(0)", "X.flip((0, 1))", "X.flip(dims=(1,))",
    "SQUARE.tril()", "SQUARE.triu(1)", "SQUARE.tril(diagonal=-1)", "SQUARE.diagonal()", "V.diag()", "SQUARE.trace()", "X.unflatten(1, (2, 2))",
    "X.gather(1, COL)", "X.scatter(1, COL[:1], Y[:1])", "X.scatter_add(1, COL, Y[:2])", "X.index_select(0, I)", "X.masked_fill(FLAGS, 0.5)",
    "X.masked_fill(X > 0, float('-inf'))", "X.masked_select(FLAGS)", "X.take(I)", "X.where(FLAGS, Y)", "N.nonzero()", "X.topk(2, dim=1)",
    "X.kthvalue(2)", "N.unique()", "C.bincount()", "X.add(Y)", "X.add(Y, alpha=2)", "X.sub(1)", "X.mul(2)", "X.div(Y)",
    "X.div(2, rounding_mode='floor')", "X.pow(2)", "P.pow(Y)", "X.fmod(0.3)", "X.remainder(0.3)", "X.clamp(0)", "X.clamp(-1, 1)",
    "X.clamp(min=0)", "X.clip(max=0.5)", "X.clamp_min(0)", "X.addcmul(Y, P)", "X.lerp(Y, 0.25)", "X.eq(Y)", "X.eq(1)", "X.ne(Y)", "X.lt(0)",
    "X.ge(Y)", "X.logical_not()", "FLAGS.logical_and(FLAGS)", "X.isnan()", "X.allclose(Y)", "X.isclose(Y)", "X.equal(X)", "X.maximum(Y)",
    "X.atan2(Y)", "X.mm(Y.t())", "X.matmul(V)", "X.mv(V)", "V.dot(U)", "V.outer(V3)", "CUBE.bmm(B)", "SQUARE.addmm(X, Y.t())", "X.dist(Y)",
    "X.round(decimals=1)", "X.nan_to_num()", "X.new_zeros(2, 3)", "X.new_zeros((2,))", "N.new_ones(2)", "X.new_full((2,), 3)",
    "X.new_tensor([1, 2])", "X.new_empty(2).shape[0]", "N.new_tensor([1.5])", "X.to(torch.float64)", "X.to(dtype=torch.long)", "X.to('cpu')",
    "X.to('cpu', torch.float16)", "X.to(torch.device('cpu'))", "X.to(N)", "X.to(X) is X", "X.to(torch.float32) is X", "X.float() is X",
    "X.to('cpu', dtype=torch.int32)", "X.to(device='cpu', dtype=torch.float64)", "X.to('cpu', non_blocking=True)", "X.to(5)",
    "X.type(torch.float64)", "X.type('torch.LongTensor')", "X.type(torch.LongTensor)", "X.type_as(N)", "X.type()", "N.type()",
    "X.device.type", "str(X.device)", "X.device == torch.device('cpu')", "X.device.index", "isinstance(X.device, torch.device)",
    "X.is_cuda", "X.numpy(force=True)", "X.detach().numpy()", "len(X)", "X.detach().requires_grad", "S.item()", "float(S)", "X.data.requires_grad",
    *(f"a = P.clone(); b = a.{name}_(); (a, b is a)" for name in _IN_PLACE),
    *(f"{_C}a.{name}; a" for name in (
        "add_(Y)", "add_(1)", "add_(Y, alpha=2)", "sub_(Y)", "mul_(2)", "div_(Y)", "pow_(2)", "clamp_(-1, 1)", "clamp_(min=0)", "zero_()",
        "fill_(2)", "copy_(Y)", "copy_(V)", "copy_(N[:, :1].repeat(1, 4)[:1])", "addcmul_(Y, P, value=0.5)", "addcdiv_(Y, P)",
        "masked_fill_(FLAGS, 2.0)", "scatter_(1, COL[:1], Y[:1])", "scatter_(1, COL, 1.5)", "scatter_(dim=1, index=COL[:, :1], value=1.0)",
        "scatter_add_(1, COL, Y[:2])", "index_add_(0, I, Y)", "index_fill_(0, I[:2], 3)", "index_copy_(0, I, Y)", "lerp_(Y, 0.5)", "tril_()",
        "fmod_(0.5)", "remainder_(0.5)", "clamp_min_(0)", "eq_(Y)", "exp_()", "mul_(Y).add_(1)", "fill_diagonal_(1)")),
    f"{_C}a += Y; a", f"{_C}a *= 2; a", f"{_C}a[0] = 5; a", f"{_C}a[:, 1] += 1; a", f"{_C}b = a[1]; b.mul_(3); a",
    f"{_C}a.view(-1)[0] = 9; a", f"{_C}a.add_(N); a", "a = N.clone(); a.add_(1.5); a", "a = N.clone(); a.mul_(2); a", "a = V.clone(); a.add_(X); a",
    "X.add_(1)", "X.clone().unsqueeze_(0)", "a = X.detach().clone(); a.uniform_(2, 2); a", "a = X.detach().clone(); a.normal_(1, 0); a",
    "a = torch.empty(3); a.random_(5, 6); a", "a = torch.zeros(3, dtype=torch.long); a.random_(1); a", "torch.empty(3).uniform_(3, 3)",
    "torch.empty(4).bernoulli_(1.0)", "X.data.zero_(); X", "X.data = Y.data; X", "X.detach().fill_(1); X", "X.data.mul_(2); X.sum()",
    "X.copy_(Y)", "X.t().view(12)", "X.requires_grad_(False).requires_grad", "X.sum().backward(); X.grad", "X.backward()",
    "X.backward(torch.ones(3, 4)); X.grad", "X.backward(gradient=Y.detach()); X.grad", "(X * X).sum().backward(retain_graph=True); X.grad",
    "y = X * 2; y.is_leaf", "y = X * 2; y.requires_grad_(False)", "y = (X * 2).detach(); y.requires_grad_(); y.is_leaf",
    "hash(X) == hash(X)", "bool(S > 0)", "X[0, 0].item()", "X[None].shape[0]", "X[..., 0]", "X[I]", "X[FLAGS]", "X[I, I]", "X[:, [0, 2]]",
    "X[X > 0]", "N // 2", "N % 4", "N / 2", "-N", "abs(N)", "2 ** N.abs()", "X @ Y.t()", "1 - X", "1 / X", "~FLAGS", "FLAGS & FLAGS", "X == Y",
    "(X > 0).sum()", "(X > 0).float().mean()", "N.sum().item()", "[x.item() for x in V]", "X.double().dtype",
]  # fmt: skip
