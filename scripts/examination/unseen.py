"""Faults in scripts that `pinprof fix` was not made with; what is right was written down before it ran."""

from scripts.examination.planting import Edit, Fault, Variant, after, before, mark, swap

SUM, COUNT, NUMBER = "total += loss.item()", "correct += (...).sum()", "value = loss.item()"
PIN, COPIES, ONE_BY_ONE = "pin_memory missing", "its own: copies", "foreach=False"
EVERY_N = "it is read every N steps"
EACH_STEP = "each step shows it"


def _certain(kind: str, rule: str, *edits: Edit, why: str = "") -> Fault:
    return Fault(kind, edits, "mend", rule, why)


def _open(kind: str, rule: str, why: str, *edits: Edit) -> Fault:
    return Fault(kind, edits, "either", rule, why)


def _left(kind: str, rule: str, why: str, *edits: Edit) -> Fault:
    return Fault(kind, edits, "refuse", rule, why)


def _one_by_one(at: str, old: str, new: str = "", file: str = "") -> Fault:
    return _certain(ONE_BY_ONE, "PIN602", swap(at, old, new or f"{old}, foreach=False", "", file))


OF_TCN = (
    Variant(
        "adding_sum",
        "tcn_adding",
        (
            _certain(SUM, "PIN201", mark("total_loss += loss.item()"), why=EVERY_N),
            _open(
                ONE_BY_ONE,
                "PIN602",
                "its class has a name of the command line",
                swap("optimizer = getattr(", "lr=lr", "lr=lr, foreach=False"),
            ),
        ),
    ),
    Variant(
        "adding_checks",
        "tcn_adding",
        (
            _open(
                NUMBER,
                "PIN201",
                "another function reads it, as a global",
                after("loss.backward()", "last_loss = loss.item()", "def train("),
                after("global lr", "global last_loss"),
                after("test_loss = F.mse_loss", "print('last training loss', last_loss)"),
            ),
            _left(
                "if loss != loss",
                "PIN202",
                "each step decides on it",
                before("loss.backward()", "if loss != loss:\n    raise ValueError('diverged')", "def train("),
            ),
        ),
    ),
    Variant(
        "copying_sums",
        "tcn_copying",
        (
            _open(SUM, "PIN201", "a clock near it reads the time of a step", mark("total_loss += loss.item()")),
            _open(COUNT, "PIN203", "a clock near it reads the time of a step", mark("correct += pred.eq(")),
        ),
    ),
    Variant(
        "pixels_helper",
        "tcn_pixels",
        (
            _certain(
                PIN,
                "PIN104",
                swap("train_loader = torch", "batch_size)", "batch_size, num_workers=2)", "", "utils.py"),
                why="a function in another file makes the loader",
            ),
            _open(
                COUNT,
                "PIN203",
                "a sum of what is copied, and not read, is for people",
                after("train_loss += loss", "correct += output.argmax(1).eq(target).sum().cpu()"),
                before("for batch_idx, (data, target)", "correct = 0", "def train("),
                after(
                    "train_loss += loss",
                    "if batch_idx > 0 and batch_idx % args.log_interval == 0:\n"
                    "    print('right {:.2f}'.format(100. * correct / ((batch_idx + 1) * batch_size)))",
                ),
            ),
        ),
    ),
)

OF_GRAPHS = (
    Variant(
        "pygcn_weights",
        "pygcn",
        (
            _certain(
                "a constant made in each step",
                "PIN209",
                before("loss_train = F.nll_loss(", "class_weight = torch.tensor([1., 1., 1., 1., 1., 1., 2.]).cuda()"),
                swap("loss_train = F.nll_loss(", "labels[idx_train])", "labels[idx_train], weight=class_weight)"),
            ),
            _certain(
                "empty_cache()",
                "PIN303",
                after("optimizer.step()", "gc.collect()\ntorch.cuda.empty_cache()"),
                before("import time", "import gc"),
            ),
        ),
    ),
)

OF_RECOMMENDERS = (
    Variant(
        "factorization_own",
        "factorization",
        (
            _certain(SUM, "PIN201", mark("total_loss += loss.item()"), why="a progress bar shows it every N steps"),
            _certain(PIN, "PIN104", mark("train_data_loader = DataLoader(")),
        ),
    ),
    Variant(
        "factorization_returned",
        "factorization",
        (
            _certain(
                SUM,
                "PIN201",
                after("total_loss += loss.item()", "epoch_loss += loss.item()"),
                after("model.train()", "epoch_loss = 0.0"),
                before("def test(", "# of the epoch\n    return epoch_loss / len(data_loader)"),
                swap("train(model, optimizer, train", "train(model", "mean_loss = train(model"),
                after("mean_loss = train(", "print('mean loss %.4f' % mean_loss)"),
                why="the function returns it when the epoch ends",
            ),
        ),
    ),
    Variant(
        "factorization_clock",
        "factorization",
        (
            _left(
                "synchronize() and a clock",
                "PIN210",
                "the time would be that of the launches",
                after("optimizer.step()", "torch.cuda.synchronize()\ntook = time.perf_counter() - began"),
                before("y = model(fields)", "began = time.perf_counter()", "def train("),
                before("if (i + 1) % log_interval", "if (i + 1) % log_interval == 0:\n    print('took', took)"),
                before("import torch", "import time"),
            ),
        ),
    ),
    Variant(
        "filtering_dict",
        "neural_filtering",
        (
            _open(
                "running['loss'] += loss.item()",
                "PIN201",
                "a dictionary holds the sum",
                after(
                    "count += 1",
                    "running['loss'] += loss.item()\nrunning['steps'] += 1\nif count % 100 == 0:\n"
                    "\tprint('loss', running['loss'] / running['steps'])\n\trunning = {'loss': 0.0, 'steps': 0}",
                ),
                before("count, best_hr = 0, 0", "running = {'loss': 0.0, 'steps': 0}"),
            ),
            _certain(PIN, "PIN104", mark("train_loader = data.DataLoader(")),
        ),
    ),
    Variant(
        "filtering_recent",
        "neural_filtering",
        (
            _left(
                "recent.append(loss.item())",
                "PIN201",
                "each step decides on it",
                after(
                    "loss.backward()",
                    "recent.append(loss.item())\nif len(recent) > 10 and recent[-1] > 2 * recent[-10]:\n\tbreak",
                ),
                before("count, best_hr = 0, 0", "recent = []"),
            ),
        ),
    ),
    Variant(
        "sasrec_list",
        "sasrec",
        (
            _certain(
                "losses.append(float(loss))",
                "PIN201",
                after("adam_optimizer.step()", "epoch_losses.append(float(loss))"),
                before("for step in range(num_batch)", "epoch_losses = []"),
                swap('print("loss in epoch', 'print("loss', 'if step % 100 == 0: print("loss'),
                before("if epoch % 20 == 0", "print('mean loss', np.mean(epoch_losses))"),
                why="it is read when the epoch ends",
            ),
            _certain(
                "a constant made in each step",
                "PIN209",
                before(
                    "pos_logits = (log_feats",
                    "temperature = torch.tensor([0.07], device=self.dev)",
                    "def forward(self, user_ids",
                    "model.py",
                ),
                swap("pos_logits = (log_feats", "dim=-1)", "dim=-1) / temperature", "", "model.py"),
            ),
            _open(
                COPIES,
                "PIN104",
                "each is made of an array of NumPy",
                mark("seqs = self.item_emb(torch.LongTensor(", "", "model.py"),
            ),
        ),
    ),
)

OF_GENERATORS = (
    Variant(
        "diffusion_loader",
        "mnist_diffusion",
        (
            _certain(
                PIN,
                "PIN104",
                swap(
                    "dataloader = DataLoader(",
                    "batch_size=batch_size, shuffle=True, num_workers=5",
                    "batch_size, True, None, None, 5",
                ),
            ),
            _certain(
                "a constant made in each step",
                "PIN209",
                swap("loss = ddpm(x, c)", "ddpm(x, c)", "ddpm(x, c) * torch.tensor(0.5).cuda()"),
            ),
            _left("its own: a mean that moves", "PIN201", EACH_STEP, mark("loss_ema = 0.95 * loss_ema")),
        ),
    ),
    Variant(
        "flows_sum",
        "flows",
        (
            _certain(
                SUM,
                "PIN201",
                mark("train_loss += loss.item()"),
                swap("pbar.set_description('Train", "pbar.set", "if batch_idx % 20 == 0: pbar.set"),
                swap("writer.add_scalar('training/loss'", "writer", "if global_step % 20 == 0: writer"),
                why=EVERY_N,
            ),
            _certain(
                "if float(loss) > x and step % N == 0",
                "PIN201",
                after("optimizer.step()", "if float(loss) > 50 and batch_idx % 50 == 0:\n    print('a large loss')"),
            ),
            _certain("its own: copies that wait", "PIN102", mark("data = data.to(device)", "def train(")),
        ),
    ),
    Variant(
        "vqvae_loader",
        "vqvae",
        (
            _certain(
                PIN,
                "PIN104",
                swap(
                    "dataset, batch_size=",
                    "batch_size=16 // args.n_gpu, sampler=sampler, num_workers=2",
                    "16 // args.n_gpu, False, sampler, None, 2",
                ),
            ),
            _certain(
                "empty_cache()",
                "PIN303",
                after("optimizer.step()", "if torch.cuda.is_available():\n    torch.cuda.empty_cache()"),
            ),
            _left("its own: sums", "PIN201", EACH_STEP, mark("part_mse_sum = recon_loss.item()")),
        ),
    ),
    Variant(
        "vqvae_staging",
        "vqvae",
        (
            Fault(
                "a pinned buffer that is filled again",
                (
                    swap("img = img.to(device)", "img.to", "staging[: len(img)].copy_(img).to"),
                    before("for i, (img, label)", "staging = torch.empty(16, 3, 32, 32).pin_memory()"),
                ),
                "same",
                "PIN102",
                "the next step writes to it while a copy that does not wait may still read it",
            ),
        ),
        sound=True,
    ),
)

OF_PLAYERS = (
    Variant(
        "td3_losses",
        "td3",
        (
            _one_by_one("self.critic_optimizer = torch", "lr=3e-4", file="TD3.py"),
            _open(
                "self.losses.append(loss.item())",
                "PIN201",
                "other files can read the list of an object",
                after(
                    "self.critic_optimizer.step()",
                    "self.critic_losses.append(critic_loss.item())\nif self.total_it % 1000 == 0:\n"
                    "\tprint(np.mean(self.critic_losses))\n\tself.critic_losses.clear()",
                    "",
                    "TD3.py",
                ),
                before("self.total_it = 0", "self.critic_losses = []", "", "TD3.py"),
            ),
            _open(
                "a number that is written to",
                "PIN209",
                "made once, it would double in each step; made on the GPU each time, it would not",
                before("noise = (", "scale = torch.tensor([0.1]).to(device)\nscale.mul_(2)", "", "TD3.py"),
                swap("torch.randn_like(action) *", "self.policy_noise", "scale", "", "TD3.py"),
            ),
        ),
    ),
    Variant(
        "td3_buffer",
        "td3",
        (
            _open(
                COPIES,
                "PIN104",
                "each is made of an array of NumPy",
                mark("torch.FloatTensor(self.state[ind]).to", "", "utils.py"),
            ),
            _open(
                "self.loss = loss.item()",
                "PIN201",
                "another file reads it",
                after("self.actor_optimizer.step()", "self.actor_loss = actor_loss.item()", "", "TD3.py"),
                before("np.save(f", "print('actor loss', policy.actor_loss)"),
            ),
        ),
    ),
    Variant(
        "actor_critic_alpha",
        "soft_actor_critic",
        (
            _certain("its own: a constant", "PIN209", mark("alpha_loss = torch.tensor(0.).to(", "", "sac.py")),
            _one_by_one(
                "self.critic_optim = Adam(",
                "lr=args.lr",
                "args.lr, (0.9, 0.999), 1e-8, 0, False, foreach=False",
                "sac.py",
            ),
            _left("its own: losses", "PIN201", "each step writes them", mark("return qf1_loss.item()", "", "sac.py")),
        ),
    ),
    Variant(
        "ppo_waits",
        "ppo",
        (
            _one_by_one("])", "])", "], foreach=False)", "PPO.py"),
            _certain(
                "two synchronize() in a row",
                "PIN210",
                after(
                    "self.optimizer.step()",
                    "torch.cuda.synchronize(device)\ntorch.cuda.synchronize(device)",
                    "",
                    "PPO.py",
                ),
            ),
        ),
    ),
)

TRAINER = "bert_pytorch/trainer/pretrain.py"
INFORMER = "exp/exp_informer.py"
OF_SEQUENCES = (
    Variant(
        "bert_trainer",
        "bert",
        (
            _certain(PIN, "PIN104", mark("train_data_loader = DataLoader(", "", "bert_pytorch/__main__.py")),
            _one_by_one("self.optim = Adam(", "weight_decay=weight_decay", file=TRAINER),
            _open(
                SUM,
                "PIN201",
                "each step makes the dictionary that is shown every N steps",
                mark("avg_loss += loss.item()", "", TRAINER),
            ),
        ),
    ),
    Variant(
        "informer_list",
        "informer",
        (
            _certain(
                "losses.append(loss.item())",
                "PIN201",
                mark("train_loss.append(loss.item())", "", INFORMER),
                why="it is read when the epoch ends",
            ),
            _one_by_one("model_optim = optim.Adam(", "lr=self.args.learning_rate", file=INFORMER),
            _open(
                COPIES,
                "PIN104",
                "the host makes other numbers of the batch first",
                mark("batch_x = batch_x.float().to(", "", INFORMER),
            ),
        ),
    ),
    Variant(
        "transformer_own",
        "copying_transformer",
        (
            _left("its own: print(loss.item())", "PIN201", EACH_STEP, mark("print(f'{i}: {loss.item()}')")),
            _certain("its own: a constant", "PIN104", mark("prefix = torch.ones(")),
            _certain("its own: a constant", "PIN104", mark("src_mask = torch.ones(")),
        ),
    ),
    Variant(
        "transformer_tokens",
        "copying_transformer",
        (
            _one_by_one("optim = torch.optim.Adam(", "lr=LEARNING_RATE"),
            _left(
                "seen += int(....sum())",
                "PIN201",
                "each step decides on it",
                after("optim.zero_grad()", "seen += int((tgt != 0).sum())\nif seen > 10 ** 9:\n    break"),
                before("for i in tqdm", "seen = 0"),
            ),
            _open(COPIES, "PIN104", "on the GPU other numbers would be drawn", mark("src = torch.randint(")),
        ),
    ),
    Variant(
        "speaker_sum",
        "speaker",
        (
            _certain(
                "total = total + loss.item()",
                "PIN201",
                swap("total_loss = total_loss + loss", "+ loss", "+ loss.item()"),
                why=EVERY_N,
            ),
            _open(COPIES, "PIN104", "its loader has no workers", mark("mel_db_batch = mel_db_batch.to(device)")),
        ),
    ),
    Variant(
        "speaker_finite",
        "speaker",
        (
            _left(
                "if not torch.isfinite(loss)",
                "PIN202",
                "each step decides on it",
                before("loss.backward()", "if not torch.isfinite(loss):\n    print('skipped')\n    continue"),
            ),
        ),
    ),
)

METER = """class AverageMeter(object):
    def __init__(self):
        self.val, self.avg, self.sum, self.count = 0, 0, 0, 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count"""
OFTEN = swap("progress_bar.set_postfix(", "progress_bar.", "if i % 20 == 0: progress_bar.")
OF_PICTURES = (
    Variant(
        "cutout_bar",
        "cutout",
        (
            _certain(SUM, "PIN201", mark("xentropy_loss_avg += xentropy_loss.item()"), OFTEN, why=EVERY_N),
            _open(COUNT, "PIN201", "each step divides it, and a file gets that", mark("correct += (pred == labels.d")),
            _certain("its own: copies that wait", "PIN102", mark("images = images.cuda()", "for i, (images, labels)")),
        ),
    ),
    Variant(
        "cutout_meter",
        "cutout",
        (
            _open(
                "meter.update(loss.item(), n)",
                "PIN201",
                "an object holds the sum",
                swap(
                    "xentropy_loss_avg += xentropy",
                    "xentropy_loss_avg += xentropy_loss.item()",
                    "meter.update(xentropy_loss.item(), images.size(0))",
                ),
                swap("xentropy='%.3f'", "(xentropy_loss_avg / (i + 1))", "meter.avg"),
                swap("xentropy_loss_avg = 0.", "xentropy_loss_avg = 0.", "meter = AverageMeter()"),
                before("def test(loader)", METER),
                OFTEN,
            ),
            _one_by_one("momentum=0.9, nesterov=True", "weight_decay=5e-4"),
        ),
    ),
    Variant(
        "sam_loader",
        "sam",
        (
            _certain(PIN, "PIN104", mark("self.train = torch", "", "data/cifar.py")),
            _left(
                "its own: loss.cpu()", "PIN203", "each step adds it up", mark("log(model, loss.cpu(), correct.cpu(), ")
            ),
            _open(
                ONE_BY_ONE,
                "PIN602",
                "an optimizer of the program's own gets it",
                swap("optimizer = SAM(", "=args.weight_decay", "=args.weight_decay, foreach=False"),
            ),
        ),
    ),
    Variant(
        "pointnet_cache",
        "pointnet",
        (
            _certain("empty_cache()", "PIN303", after("optimizer.step()", "torch.cuda.empty_cache()")),
            _left("its own: print(loss.item())", "PIN201", EACH_STEP, mark("print('[%d: %d/%d] train loss")),
            _open(COPIES, "PIN104", "a part of a batch is copied", mark("dataloader = torch.utils")),
        ),
    ),
)

UNSEEN_VARIANTS = (
    *(*OF_TCN, *OF_GRAPHS, *OF_RECOMMENDERS, *OF_GENERATORS),
    *(*OF_PLAYERS, *OF_SEQUENCES, *OF_PICTURES),
)
