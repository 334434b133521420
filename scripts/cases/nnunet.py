"""Trains nnU-Net's 3D network with made-up volumes: case.py BATCH SIZE FEATURES."""

import os
import sys
from itertools import repeat
from pathlib import Path

import torch
from stand_ins import stand_in

sys.path.insert(0, ".")
batch, size, features = map(int, sys.argv[1:4])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
NOTHING = {"__getattr__": lambda _name: object, "__all__": ()}
FILES = {"join": os.path.join, "maybe_mkdir_p": lambda folder: Path(folder).mkdir(parents=True, exist_ok=True)}
for name in ("batchgenerators", "batchgenerators.utilities", "batchgenerators.transforms"):
    stand_in(name)
stand_in("batchgenerators.utilities.file_and_folder_operations", **FILES, **NOTHING)
for kind in ("abstract", "color", "noise", "resample", "spatial", "utility"):  # they read, augment and write
    stand_in(f"batchgenerators.transforms.{kind}_transforms", **NOTHING)
for name in (
    *("batchgenerators.dataloading", "batchgenerators.dataloading.single_threaded_augmenter"),
    *("acvl_utils", "acvl_utils.cropping_and_padding", "acvl_utils.cropping_and_padding.bounding_boxes", "seaborn"),
    *("nnunetv2.evaluation", "nnunetv2.evaluation.evaluate_predictions", "nnunetv2.inference"),
    *("nnunetv2.inference.export_prediction", "nnunetv2.inference.predict_from_raw_data"),
    *("nnunetv2.inference.sliding_window_prediction", "nnunetv2.training.dataloading"),
    *("nnunetv2.training.dataloading.data_loader_2d", "nnunetv2.training.dataloading.data_loader_3d"),
    *("nnunetv2.training.dataloading.nnunet_dataset", "nnunetv2.training.dataloading.utils"),
    *("nnunetv2.training.data_augmentation", "nnunetv2.training.data_augmentation.compute_initial_patch_size"),
    *("nnunetv2.training.data_augmentation.custom_transforms", "nnunetv2.preprocessing.resampling.utils"),
    *("nnunetv2.imageio.reader_writer_registry", "nnunetv2.utilities.file_path_utilities"),
):
    stand_in(name, **NOTHING)
for kind in (
    *("cascade_transforms", "deep_supervision_donwsampling", "limited_length_multithreaded_augmenter", "masking"),
    *("region_based_training", "transforms_for_dummy_2d"),
):
    stand_in(f"nnunetv2.training.data_augmentation.custom_transforms.{kind}", **NOTHING)
for variable in ("raw", "preprocessed", "results"):
    os.environ[f"nnUNet_{variable}"] = str(Path("out").resolve())

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer  # noqa: E402


class Training(nnUNetTrainer):
    """The trainer without the files of a data set."""

    def on_train_start(self):
        """Make up one batch, with a target for each resolution."""
        self.num_iterations_per_epoch = 1_000_000
        self.initialize()
        shapes = [[size // 2**level] * 3 for level in range(STAGES - 1)]
        target = [torch.randint(0, 3, (batch, 1, *shape)).float() for shape in shapes]
        data = torch.randn(batch, 1, size, size, size)
        if device.type == "cuda":
            data, target = data.pin_memory(), [labels.pin_memory() for labels in target]
        self.dataloader_train = repeat({"data": data, "target": target})


STAGES = 6
configuration = {
    "data_identifier": "made_up",
    "batch_size": batch,
    "patch_size": [size] * 3,
    "UNet_class_name": "PlainConvUNet",
    "UNet_base_num_features": features,
    "unet_max_num_features": 320,
    "n_conv_per_stage_encoder": [2] * STAGES,
    "n_conv_per_stage_decoder": [2] * (STAGES - 1),
    "pool_op_kernel_sizes": [[1] * 3, *[[2] * 3] * (STAGES - 1)],
    "conv_kernel_sizes": [[3] * 3] * STAGES,
    "batch_dice": False,
}
plans = {
    "dataset_name": "made_up",
    "plans_name": "plans",
    "configurations": {"3d_fullres": configuration},
    "label_manager": "LabelManager",
}
labels = {"background": 0, "liver": 1, "cancer": 2}
torch.backends.cudnn.benchmark = True
Training(plans, "3d_fullres", 0, {"labels": labels, "channel_names": {"0": "CT"}}, device=device).run_training()
