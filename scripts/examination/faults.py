"""The planted faults: which of other people's scripts has which, and what the right outcome of each is."""

from scripts.examination.planting import Edit, Fault, Outcome, Variant, after, before, mark, swap

STEP = "optimizer.step()"
IN_TRAIN = "def train("
TUTORIAL = "for i, (images, labels) in enumerate(train_loader)"
EVERY_100 = "if (i+1) % 100 == 0"


def _sum(
    loop: str, shown: str, step: str = STEP, loss: str = "loss", within: str = "", outcome: Outcome = "mend"
) -> Fault:
    """Return a sum of losses that is read in each step and shown under a condition that stands there already."""
    edits = (
        before(loop, "loss_so_far = 0.0", within),
        after(step, f"loss_so_far += {loss}.item()", within or loop),
        before(shown, f"{shown}:\n    print('mean loss', loss_so_far)", within or loop),
    )
    return Fault("total += loss.item()", (edits[1], edits[0], edits[2]), outcome, "PIN201", "shown every N steps")


def _kept(loop: str, shown: str, step: str = STEP, loss: str = "loss", within: str = "") -> Fault:
    show = "print('loss now', loss_now)"
    text = f"{shown}:\n    {show}" if shown.startswith("if ") else show
    edits = (after(step, f"loss_now = {loss}.item()", within or loop), before(shown, text, within or loop))
    return Fault("value = loss.item()", edits, "mend", "PIN201", "used every N steps")


def _listed(loop: str, shown: str, step: str = STEP, within: str = "") -> Fault:
    edits = (
        after(step, "losses_seen.append(loss.item())", within or loop),
        before(loop, "losses_seen = []", within),
        before(shown, f"{shown}:\n    print('mean', sum(losses_seen) / len(losses_seen))", within or loop),
    )
    return Fault("losses.append(loss.item())", edits, "either", "PIN201", "the list is read within its loop")


def _nan(step: str, within: str, loss: str = "loss") -> Fault:
    text = f"if torch.isnan({loss}):\n    raise RuntimeError('the loss is not a number')"
    return Fault("if torch.isnan(loss)", (before(step, text, within),), "refuse", "PIN202", "each step decides on it")


def _costly_first(step: str, within: str, counter: str, loss: str = "loss") -> Fault:
    text = f"if {loss} > 1000 and {counter} % 50 == 0:\n    print('a large loss')"
    return Fault("if loss > x and step % N == 0", (after(step, text, within),), "mend", "PIN202", "the loss only looks")


def _empty_cache(step: str, within: str, file: str = "") -> Fault:
    return Fault("empty_cache()", (after(step, "torch.cuda.empty_cache()", within, file),), "mend", "PIN303")


def _two_waits(step: str, within: str, file: str = "") -> Fault:
    text = "torch.cuda.synchronize()\ntorch.cuda.synchronize()"
    return Fault("two synchronize() in a row", (after(step, text, within, file),), "mend", "PIN210")


def _lone_wait(step: str, within: str) -> Fault:
    edit = after(step, "torch.cuda.synchronize()", within)
    return Fault("a lone synchronize()", (edit,), "refuse", "PIN210", "the source does not show what relies on it")


def _one_by_one(at: str, old: str, new: str, file: str = "", outcome: Outcome = "mend") -> Fault:
    return Fault("foreach=False", (swap(at, old, new, "", file),), outcome, "PIN602")


def _shown(step: str, within: str, text: str) -> Fault:
    return Fault("print(loss) in each step", (after(step, text, within),), "refuse", "PIN204", "it is shown each step")


def _counted(loop: str, step: str, count: str, shown: str, within: str = "") -> Fault:
    edits = (
        after(step, f"right += {count}.item()", within or loop),
        before(loop, "right = 0", within),
        before(shown, f"{shown}:\n    print('right', right)", within or loop),
    )
    return Fault("correct += (...).sum().item()", edits, "mend", "PIN201", "the count is shown every N steps")


def _weights(at: str, made: str, used: Edit | None, within: str) -> Fault:
    edits = (before(at, made, within), *([used] if used else []))
    return Fault("a constant made in each step", edits, "mend", "PIN209", "it is always the same")


ADDED = "loss_so_far += loss.item()\n"
TEN = ", ".join(["1.0"] * 10)
LOGGED = "if batch_idx % args.log_interval == 0"
BATCHES = "for batch_idx, (data, target) in enumerate(train_loader)"
PAIRS = "for batch_idx, (images_1, images_2, targets) in enumerate(train_loader)"
DRAWN = "for i, (images, target) in enumerate(train_loader)"
GAN = "for i, (imgs, _) in enumerate(dataloader)"

OF_EXAMPLES = (
    Variant("mnist_sum", "mnist", (_sum(BATCHES, LOGGED, within=IN_TRAIN),)),
    Variant("mnist_cache", "mnist", (_nan("loss.backward()", IN_TRAIN), _empty_cache(STEP, IN_TRAIN))),
    Variant(
        "vae_pin",
        "vae",
        (
            Fault(
                "pin_memory=False",
                (swap("kwargs = ", "'pin_memory': True", "'pin_memory': False"),),
                "either",
                "PIN104",
                "it comes from a dictionary of options",
            ),
        ),
    ),
    Variant(
        "vae_adam",
        "vae",
        (
            _one_by_one("optimizer = optim.Adam(", "lr=1e-3", "lr=1e-3, foreach=False"),
            _weights(
                "KLD = ",
                "weight = torch.tensor(0.5, device=device)",
                swap("KLD = ", "-0.5 *", "-weight *"),
                "def loss_function",
            ),
        ),
    ),
    Variant(
        "rnn_pin",
        "mnist_rnn",
        (
            Fault(
                "pin_memory missing",
                (swap("batch_size=args.batch_size, shuffle=True", "**kwargs", "num_workers=2"),),
                "mend",
                "PIN104",
            ),
            _kept(BATCHES, LOGGED, within=IN_TRAIN),
        ),
    ),
    Variant(
        "siamese_count",
        "siamese_network",
        (_counted(PAIRS, STEP, "((outputs > 0.5) == (targets > 0.5)).sum()", LOGGED, IN_TRAIN),),
    ),
    Variant(
        "siamese_waits",
        "siamese_network",
        (
            _two_waits(STEP, IN_TRAIN),
            _one_by_one("optimizer = optim.Adadelta(", "lr=args.lr", "lr=args.lr, foreach=False"),
        ),
    ),
    Variant(
        "imagenet_pin",
        "imagenet",
        (
            Fault(
                "pin_memory=False, and copies that wait",
                (
                    swap("num_workers=args.workers", "pin_memory=True", "pin_memory=False", "train_loader = "),
                    swap("images = images.to(device", ", non_blocking=True", "", DRAWN),
                    swap("target = target.to(device", ", non_blocking=True", "", DRAWN),
                ),
                "mend",
                "PIN102",
            ),
        ),
    ),
    Variant(
        "words_decide",
        "word_language_model",
        (_costly_first("loss.backward()", "def train()", "batch"),),
    ),
    Variant(
        "words_list",
        "word_transformer",
        (
            _listed(
                "for batch, i in enumerate(",
                "if batch % args.log_interval == 0 and batch > 0",
                "loss.backward()",
                "def train()",
            ),
        ),
    ),
    Variant(
        "dcgan_adam",
        "dcgan",
        (
            _one_by_one("optimizerD = ", "lr=opt.lr", "lr=opt.lr, foreach=False"),
            _one_by_one("optimizerG = ", "lr=opt.lr", "lr=opt.lr, foreach=False"),
            _empty_cache("optimizerG.step()", "for i, data in enumerate(dataloader, 0)"),
        ),
    ),
    Variant(
        "forward_forward",
        "forward_forward",
        (
            _kept("for i in range(self.num_epochs)", "if i % args.log_interval == 0", "self.opt.step()"),
            _one_by_one("self.opt = Adam(", "lr=args.lr", "lr=args.lr, foreach=False"),
        ),
    ),
)

OF_TUTORIAL = (
    Variant(
        "feedforward_pin",
        "tutorial_feedforward",
        (
            _sum(TUTORIAL, EVERY_100),
            Fault("pin_memory missing", (swap("shuffle=True)", ")", ", num_workers=2)"),), "mend", "PIN104"),
        ),
    ),
    Variant(
        "cnn_count",
        "tutorial_cnn",
        (
            _counted(TUTORIAL, STEP, "(outputs.argmax(1) == labels).sum()", EVERY_100),
            _kept(TUTORIAL, "print ('Epoch"),
        ),
    ),
    Variant(
        "cnn_print",
        "tutorial_cnn",
        (
            _shown(STEP, TUTORIAL, "print(i, loss)"),
            _one_by_one("optimizer = torch.optim.Adam(", "lr=learning_rate", "lr=learning_rate, foreach=False"),
            Fault(
                "pin_memory=False",
                (swap("shuffle=True)", ")", ", num_workers=4, pin_memory=False)"),),
                "mend",
                "PIN104",
            ),
        ),
    ),
    Variant(
        "rnn_weights",
        "tutorial_rnn",
        (
            _weights(
                "loss = criterion(",
                f"class_weights = torch.tensor([{TEN}], device=device)",
                swap(
                    "loss = criterion(",
                    "criterion(outputs, labels",
                    "nn.functional.cross_entropy(outputs, labels, weight=class_weights",
                ),
                TUTORIAL,
            ),
        ),
    ),
    Variant(
        "two_way_weights",
        "tutorial_two_way_rnn",
        (
            _weights(
                "loss = criterion(",
                f"class_weights = torch.tensor([{TEN}]).to(device)",
                swap(
                    "loss = criterion(",
                    "criterion(outputs, labels",
                    "nn.functional.cross_entropy(outputs, labels, weight=class_weights",
                ),
                TUTORIAL,
            ),
            _costly_first("loss.backward()", TUTORIAL, "i"),
        ),
    ),
    Variant("resnet_cache", "tutorial_resnet", (_empty_cache(STEP, TUTORIAL), _lone_wait("loss.backward()", TUTORIAL))),
    Variant(
        "language_list",
        "tutorial_language_model",
        (
            _listed("for i in range(0, ids.size(1) - seq_length", "if step % 100 == 0", "step = (i+1) // seq_length"),
            _one_by_one("optimizer = torch.optim.Adam(", "lr=learning_rate", "lr=learning_rate, foreach=False"),
        ),
    ),
    Variant(
        "gan_sums",
        "tutorial_gan",
        (
            _sum("for i, (images, _) in enumerate(data_loader)", "if (i+1) % 200 == 0", "g_optimizer.step()", "d_loss"),
            _kept("for i, (images, _) in enumerate(data_loader)", "print('Epoch", "g_optimizer.step()", "g_loss"),
        ),
    ),
    Variant(
        "vae_decides",
        "tutorial_vae",
        (
            _nan("optimizer.zero_grad()", "for i, (x, _) in enumerate(data_loader)"),
            _kept("for i, (x, _) in enumerate(data_loader)", "if (i+1) % 10 == 0", STEP, "kl_div"),
        ),
    ),
)

OF_OTHERS = (
    Variant(
        "gan_labels",
        "gan_gan",
        (
            _one_by_one("optimizer_G = ", "lr=opt.lr", "lr=opt.lr, foreach=False"),
            _weights(
                "# Configure input",
                'smooth = torch.tensor(0.9, device="cuda")\nvalid = valid * smooth',
                None,
                GAN,
            ),
        ),
    ),
    Variant("gan_cache", "gan_dcgan", (_empty_cache("optimizer_D.step()", GAN),)),
    Variant("gan_waits", "gan_lsgan", (_two_waits("optimizer_D.step()", GAN),)),
    Variant(
        "cifar_sums",
        "pytorch_cifar",
        (
            Fault(
                "total += loss.item()",
                (
                    mark("train_loss += loss.item()", IN_TRAIN),
                    after("loss.backward()", "if batch_idx % 20 == 0:\n    print(train_loss, correct)", IN_TRAIN),
                    swap("progress_bar(", "progress_bar(", "if batch_idx % 10 == 0: progress_bar(", IN_TRAIN),
                ),
                "either",
                "PIN201",
                "it is shown every ten steps, but first before anything is added: 0 would be shown as 0.0",
            ),
            Fault(
                "correct += (...).sum().item()",
                (mark("correct += predicted.eq", IN_TRAIN),),
                "mend",
                "PIN201",
                "it is shown every ten steps",
            ),
        ),
    ),
    Variant(
        "cifar_sgd",
        "pytorch_cifar",
        (
            _one_by_one("momentum=0.9", "weight_decay=5e-4", "weight_decay=5e-4, foreach=False"),
            _empty_cache(STEP, IN_TRAIN),
        ),
    ),
    Variant(
        "cifar100_sgd",
        "cifar100_resnet18",
        (
            _one_by_one("optimizer = optim.SGD(", "weight_decay=5e-4", "weight_decay=5e-4, foreach=False"),
            _two_waits(STEP, IN_TRAIN),
        ),
    ),
    Variant(
        "cifar100_nan",
        "cifar100_mobilenetv2",
        (
            _nan("loss.backward()", IN_TRAIN),
            Fault(
                "num_workers=0",
                (swap("num_workers=4,", "4", "0", "cifar100_training_loader = "),),
                "permission",
                "PIN402",
            ),
        ),
    ),
    Variant(
        "resnet20_pin",
        "cifar_resnet20",
        (
            Fault(
                "pin_memory=False",
                (swap("num_workers=args.workers", "pin_memory=True", "pin_memory=False", "train_loader = "),),
                "mend",
                "PIN104",
            ),
        ),
    ),
    Variant(
        "resnet20_clock",
        "cifar_resnet20",
        (
            _sum(
                "for i, (input, target) in enumerate(train_loader)",
                "if i % args.print_freq == 0",
                within=IN_TRAIN,
                outcome="refuse",
            ),
            _one_by_one("momentum=args.momentum", "momentum=args.momentum", "momentum=args.momentum, foreach=False"),
        ),
    ),
    Variant(
        "nanogpt_copies",
        "nanogpt_eager",
        (
            Fault(
                "non_blocking missing",
                (
                    swap(
                        "x, y = x.pin_memory()",
                        "x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)",
                        "x.pin_memory().to(device), y.pin_memory().to(device)",
                    ),
                ),
                "either",
                "PIN102",
                "each batch is in memory of its own: a proposal",
            ),
        ),
    ),
    Variant(
        "nanogpt_adam",
        "nanogpt_eager",
        (
            _one_by_one("optimizer = torch.optim.AdamW(", "**extra_args", "foreach=False", "model.py", "either"),
            _two_waits("optimizer.zero_grad(set_to_none=True)", "while True:"),
        ),
    ),
    Variant(
        "mingpt_pin",
        "mingpt",
        (
            Fault(
                "pin_memory=False",
                (swap("pin_memory=True", "True", "False", "", "../../mingpt/trainer.py"),),
                "mend",
                "PIN104",
            ),
            _one_by_one(
                "optimizer = torch.optim.AdamW(", "lr=train", "foreach=False, lr=train", "../../mingpt/model.py"
            ),
        ),
    ),
    Variant(
        "makemore_adam",
        "makemore_transformer",
        (
            _one_by_one("optimizer = torch.optim.AdamW(", "eps=1e-8", "eps=1e-8, foreach=False"),
            Fault("pin_memory missing", (swap("batch_loader = ", ", pin_memory=True", ""),), "either", "PIN104"),
        ),
    ),
    Variant(
        "lecture_sum",
        "lecture_gpt",
        (
            Fault(
                "total += loss.item()",
                (
                    after(
                        STEP,
                        ADDED + "if iter % 100 == 0:\n    print(loss_so_far / 100)\n    loss_so_far = 0.0",
                    ),
                    before("for iter in range(max_iters)", "loss_so_far = 0.0"),
                ),
                "mend",
                "PIN201",
            ),
            _one_by_one("optimizer = torch.optim.AdamW(", "lr=learning_rate", "lr=learning_rate, foreach=False"),
        ),
    ),
    Variant(
        "lecture_decides",
        "lecture_bigram",
        (_costly_first("loss.backward()", "for iter in range(max_iters)", "iter"),),
    ),
    Variant(
        "airbench_sum",
        "airbench94",
        (
            Fault(
                "total += loss.item()",
                (
                    after(
                        "current_steps += 1",
                        "loss_so_far += loss.item()\nif current_steps % 20 == 0:\n    print(loss_so_far)",
                    ),
                    before("for inputs, labels in train_loader", "loss_so_far = 0.0"),
                ),
                "either",
                "PIN201",
                "the script gives locals() to a function of its own, which may look at the sum",
            ),
            _one_by_one("optimizer = torch.optim.SGD(", "nesterov=True", "nesterov=True, foreach=False"),
        ),
    ),
    Variant(
        "ddpg_sum",
        "cleanrl_ddpg",
        (
            Fault(
                "total += loss.item()",
                (
                    after("q_optimizer.step()", "loss_so_far += qf1_loss.item()"),
                    before("for global_step in range(args.total_timesteps)", "loss_so_far = 0.0"),
                    after(
                        'writer.add_scalar("losses/qf1_loss"',
                        'writer.add_scalar("losses/mean", loss_so_far / 100, global_step)\nloss_so_far = 0.0',
                    ),
                ),
                "mend",
                "PIN201",
            ),
            _one_by_one("q_optimizer = optim.Adam(", "lr=args", "foreach=False, lr=args"),
        ),
    ),
    Variant(
        "sac_adam",
        "cleanrl_sac",
        (
            _one_by_one("actor_optimizer = optim.Adam(", "lr=args", "foreach=False, lr=args"),
            _empty_cache("actor_optimizer.step()", "for global_step in range"),
        ),
    ),
    Variant(
        "gcn_adam",
        "pyg_gcn",
        (
            _one_by_one("], lr=args.lr)", "lr=args.lr", "lr=args.lr, foreach=False"),
            _weights(
                "loss.backward()",
                "scale = torch.tensor(0.5, device=device)\nloss = loss * scale",
                None,
                "def train()",
            ),
        ),
    ),
    Variant(
        "mutag_nan",
        "pyg_mutag",
        (
            _nan("loss.backward()", "def train()"),
            _one_by_one("optimizer = torch.optim.Adam(", "lr=args.lr", "lr=args.lr, foreach=False"),
        ),
    ),
    Variant(
        "pets_sum",
        "accelerate_cv",
        (
            Fault(
                "total += loss.item()",
                (
                    after(
                        "overall_step += 1",
                        ADDED + "if overall_step % 10 == 0:\n    print(loss_so_far / 10)\n    loss_so_far = 0.0",
                    ),
                    before("for batch in active_dataloader", "loss_so_far = 0.0"),
                ),
                "mend",
                "PIN201",
            ),
            _one_by_one("optimizer = torch.optim.Adam(", "lr=lr / 25", "lr=lr / 25, foreach=False"),
        ),
    ),
    Variant(
        "timm_cache",
        "timm",
        (
            _empty_cache("num_updates += 1", "def train_one_epoch("),
            _two_waits("update_sample_count += global_batch_size", "def train_one_epoch("),
        ),
    ),
    Variant(
        "llmc_adam",
        "llmc",
        (
            _one_by_one("optimizer = torch.optim.AdamW(", "fused=use_fused", "foreach=False"),
            _two_waits("optimizer.step()", "for step in range(args.num_iterations + 1)"),
        ),
    ),
)


def _own(kind: str, rule: str, at: str, outcome: Outcome, within: str = "", why: str = "") -> Fault:
    """Return a fault that the script has as it stands in its repository."""
    return Fault(f"its own: {kind}", (mark(at, within),), outcome, rule, why)


def _near(kind: str, why: str, *edits: Edit) -> Fault:
    return Fault(kind, edits, "same", "", why)


SOUND = (
    Variant("sound_airbench", "airbench94", sound=True),
    Variant("sound_makemore", "makemore_rnn", sound=True),
    Variant("sound_nanogpt", "nanogpt_eager", sound=True),
    Variant("sound_td3", "cleanrl_td3", sound=True),
    Variant(
        "sound_vae",
        "vae",
        (
            _near(
                "a mended version",
                "there is nothing left",
                swap("data = data.to(device)", "(device)", "(device, non_blocking=True)", IN_TRAIN),
                swap("train_loss += loss.item()", "loss.item()", "loss.detach()"),
                swap("optimizer = optim.Adam(", "lr=1e-3", "lr=1e-3, fused=True"),
            ),
        ),
        sound=True,
    ),
    Variant(
        "near_sum",
        "mnist",
        (
            _near(
                "a sum that each step reads",
                "each step shows it",
                after(STEP, "loss_so_far += loss.item()\nprint(loss_so_far)", IN_TRAIN),
                before(BATCHES, "loss_so_far = 0.0", IN_TRAIN),
            ),
        ),
        sound=True,
    ),
    Variant(
        "near_written",
        "tutorial_cnn",
        (
            _near(
                "a batch that is written to",
                "the host writes to it while a copy that does not wait may still read it",
                swap("images = images.to(device)", "images = images", "moved = images", TUTORIAL),
                after("labels = labels.to(device)", "images.zero_()", TUTORIAL),
                swap("outputs = model(images)", "images", "moved", TUTORIAL),
                swap("shuffle=True)", ")", ", num_workers=2, pin_memory=True)"),
            ),
        ),
        sound=True,
    ),
    Variant(
        "near_refilled",
        "tutorial_resnet",
        (
            _near(
                "a pinned buffer that is filled again",
                "the next step writes to it while a copy that does not wait may still read it",
                before("total_step = len(train_loader)", "staging = torch.empty(100, 3, 32, 32).pin_memory()"),
                swap("images = images.to(device)", "images.to", "staging.copy_(images).to", TUTORIAL),
            ),
        ),
        sound=True,
    ),
    Variant(
        "near_clock",
        "tutorial_feedforward",
        (
            _near(
                "a lone synchronize with a clock",
                "the time would be that of the launches",
                before("import torch.nn", "import time"),
                before("outputs = model(images)", "began = time.perf_counter()", TUTORIAL),
                after(STEP, "torch.cuda.synchronize()\ntook = time.perf_counter() - began", TUTORIAL),
                before(EVERY_100, "if (i+1) % 100 == 0:\n    print('took', took)", TUTORIAL),
            ),
        ),
        sound=True,
    ),
    Variant(
        "near_used",
        "mnist_rnn",
        (
            _near(
                "a number that each step needs",
                "each step decides on it",
                after(STEP, "loss_now = loss.item()\nif loss_now > 1000:\n    break", IN_TRAIN),
            ),
        ),
        sound=True,
    ),
    Variant(
        "near_changes",
        "siamese_network",
        (
            _near(
                "a condition that changes something",
                "it would not be counted in each step",
                before(PAIRS, "seen = []", IN_TRAIN),
                after(
                    STEP,
                    "if (seen.append(loss.item()) or seen[-1] > 0.5) and batch_idx % 50 == 0:\n    print(len(seen))",
                    IN_TRAIN,
                ),
            ),
        ),
        sound=True,
    ),
)

VARIANTS = (*OF_EXAMPLES, *OF_TUTORIAL, *OF_OTHERS, *SOUND)
