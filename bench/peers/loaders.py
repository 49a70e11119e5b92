"""Examples a second of our pipeline and of other loaders doing the same work, in turn, for docs/results/loaders.md.

usage: loaders.py LOADERS --cifar DIR --flowers DIR [--rows NAME ...] [--rounds 5] [--seconds 2] [--prefix "chrt -r 10"]

LOADERS is our benchmark program (`cargo bench -p sooner-pipeline --bench loaders --no-run` prints its path). Every round
runs each route once, in a process of its own; a figure is the median over the rounds. DIR are the folders of CIFAR-10's
binary files and of an image folder with train/CLASS/*.jpg. One JSON line a route and round, then one line of medians and
one of versions. A route whose package is not installed is left out and named. Install with pip: torch torchvision
webdataset spdl; FFCV builds from source and needs OpenCV's and libjpeg-turbo's headers.

CIFAR-10: crop of 32 after reflect padding of 4, flip, cutout of 8x8, normalise, batches of 512, f32. Images: read, decode,
random-resized crop to 224, flip, normalise, batches of 64, f32. Everything is in the page cache.
"""
import argparse, glob, io, json, os, random, shutil, statistics, subprocess, sys, tarfile, tempfile, time

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def measure(batches, seconds):
    """Examples a second of an endless iterator of batch sizes; what lies in queues at first is not counted."""
    since, warm = time.perf_counter(), 0
    while time.perf_counter() - since < 0.25 * seconds or warm < 6:
        next(batches)
        warm += 1
    since, examples = time.perf_counter(), 0
    while time.perf_counter() - since < seconds:
        examples += next(batches)
    return examples / (time.perf_counter() - since)


def endless(loader):
    """Sizes of a loader's batches, epoch after epoch."""
    while True:
        for images, _ in loader:
            assert str(images.dtype).endswith("float32"), images.dtype
            yield len(images)


def threads_of_torch():
    import torch

    torch.set_num_threads(1)


def cifar_torch(folder, workers, form):
    import numpy, torch
    from PIL import Image
    from torchvision.transforms import v2

    threads_of_torch()
    raw = numpy.concatenate([numpy.fromfile(p, numpy.uint8) for p in sorted(glob.glob(f"{folder}/data_batch_*.bin"))])
    raw = raw.reshape(-1, 3073)
    labels, planes = raw[:, 0].astype(int), raw[:, 1:].reshape(-1, 3, 32, 32)
    images = torch.from_numpy(planes.copy()) if form == "tensor" else planes.transpose(0, 2, 3, 1).copy()
    cut = v2.RandomErasing(p=1, scale=(1 / 16, 1 / 16), ratio=(1, 1))
    steps = [v2.RandomCrop(32, padding=4, padding_mode="reflect"), v2.RandomHorizontalFlip()]
    if form == "pil":
        steps.append(v2.PILToTensor())
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), cut]
    transform = v2.Compose(steps)

    class Set(torch.utils.data.Dataset):
        def __len__(self):
            return len(labels)

        def __getitem__(self, i):
            return transform(images[i] if form == "tensor" else Image.fromarray(images[i])), int(labels[i])

    return endless(torch.utils.data.DataLoader(Set(), 512, shuffle=True, num_workers=workers,
                                               persistent_workers=workers > 0))


def image_steps(form):
    import torch
    from torchvision.transforms import v2

    steps = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()]
    if form == "pil":
        steps.append(v2.PILToTensor())
    return v2.Compose(steps + [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])


def files(folder):
    found = sorted(glob.glob(f"{folder}/train/*/*.jpg"))
    classes = sorted({os.path.basename(os.path.dirname(path)) for path in found})
    return found, [classes.index(os.path.basename(os.path.dirname(path))) for path in found]


def images_torch(folder, workers, form):
    import torch
    from PIL import Image
    from torchvision.io import ImageReadMode, decode_jpeg, read_file

    threads_of_torch()
    paths, labels = files(folder)
    transform = image_steps(form)

    class Set(torch.utils.data.Dataset):
        def __len__(self):
            return len(labels)

        def __getitem__(self, i):
            if form == "tensor":
                image = decode_jpeg(read_file(paths[i]), ImageReadMode.RGB)
            else:
                image = Image.open(paths[i]).convert("RGB")
            return transform(image), labels[i]

    return endless(torch.utils.data.DataLoader(Set(), 64, shuffle=True, num_workers=workers,
                                               persistent_workers=workers > 0))


SHARDS = os.path.join(tempfile.gettempdir(), f"loaders-{os.getuid()}")


def images_webdataset(folder, workers, _):
    import webdataset

    threads_of_torch()
    shards = SHARDS
    paths, labels = files(folder)
    if not os.path.isdir(shards):
        os.makedirs(shards)
        for k in range(4):
            with tarfile.open(f"{shards}/{k}.tar", "w") as tar:
                for i in range(k, len(paths), 4):
                    data = {"jpg": open(paths[i], "rb").read(), "cls": str(labels[i]).encode()}
                    for ext, value in data.items():
                        entry = tarfile.TarInfo(f"{i:06d}.{ext}")
                        entry.size = len(value)
                        tar.addfile(entry, io.BytesIO(value))
    transform = image_steps("pil")
    data = webdataset.WebDataset(sorted(glob.glob(f"{shards}/*.tar")), shardshuffle=False, resampled=True)
    data = data.shuffle(1000).decode("pil").to_tuple("jpg", "cls")
    data = data.map_tuple(transform, lambda label: label).batched(64, partial=False)
    return endless(webdataset.WebLoader(data, batch_size=None, num_workers=workers))


def images_spdl(folder, workers, _):
    import numpy, spdl.io, spdl.pipeline

    paths, labels = files(folder)
    mean = numpy.array(MEAN, numpy.float32)
    scale, shift = 1 / (255 * numpy.array(STD, numpy.float32)), mean / numpy.array(STD, numpy.float32)

    def source():
        while True:
            order = list(range(len(paths)))
            random.shuffle(order)
            yield from order

    def load(i):
        # The cut is drawn as torchvision does, in shares of the image's sides, so that its size need not be known.
        area, ratio = random.uniform(0.08, 1), numpy.exp(random.uniform(numpy.log(3 / 4), numpy.log(4 / 3)))
        wide, high = min(1, (area * ratio) ** 0.5), min(1, (area / ratio) ** 0.5)
        x, y = random.random(), random.random()
        cut = f"crop=iw*{wide:.4f}:ih*{high:.4f}:(iw-ow)*{x:.4f}:(ih-oh)*{y:.4f}"
        flip = ",hflip" if random.random() < 0.5 else ""
        steps = f"{cut},scale=224:224:flags=bilinear{flip},format=pix_fmts=rgb24"
        buffer = spdl.io.load_image(paths[i], filter_desc=steps)
        return spdl.io.to_numpy(buffer) * scale - shift, labels[i]

    def stack(items):
        return numpy.stack([image for image, _ in items]), [label for _, label in items]

    builder = spdl.pipeline.PipelineBuilder().add_source(source())
    pipeline = builder.pipe(load, concurrency=workers).aggregate(64).pipe(stack).add_sink(4).build(num_threads=workers)

    def batches():
        with pipeline.auto_stop():
            yield from endless(pipeline)

    return batches()


# Route: function, workers, form.
PEERS = {
    "cifar10": {
        "torch-0-pil": (cifar_torch, 0, "pil"),
        "torch-0-tensor": (cifar_torch, 0, "tensor"),
        "torch-2-pil": (cifar_torch, 2, "pil"),
        "torch-2-tensor": (cifar_torch, 2, "tensor"),
    },
    "images": {
        "torch-2-pil": (images_torch, 2, "pil"),
        "torch-2-tensor": (images_torch, 2, "tensor"),
        "webdataset-2": (images_webdataset, 2, None),
        "spdl-2": (images_spdl, 2, None),
    },
}
# Route: our row, threads, batch.
OURS = {
    "cifar10": {"sooner-0": ("cifar10", 0, 512), "sooner-2": ("cifar10", 2, 512)},
    "images": {"sooner-2": ("images", 2, 64), "bare-2": ("images-bare", 2, 64)},
    "small": {"reduced-2": ("small-reduced", 2, 64), "full-2": ("small-full", 2, 64)},
    "items": {"memory-2": ("items", 2, 512), "source-2": ("source-items", 2, 512)},
}


def version(package):
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loaders")
    parser.add_argument("--cifar")
    parser.add_argument("--flowers")
    parser.add_argument("--rows", nargs="*", default=list(OURS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--one", nargs=2, metavar=("ROW", "ROUTE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    folder = {"cifar10": args.cifar, "images": args.flowers, "small": args.flowers}
    if args.one:
        row, route = args.one
        make, workers, form = PEERS[row][route]
        print(json.dumps({"examples_per_second": measure(make(folder[row], workers, form), args.seconds)}), flush=True)
        # Worker processes and threads may wait for ever for someone to take their batches.
        os._exit(0)
    rates, missing = {}, []
    for turn in range(args.rounds):
        for row in args.rows:
            routes = [*OURS[row], *PEERS.get(row, {})]
            for route in routes if turn % 2 == 0 else reversed(routes):
                if route in OURS[row]:
                    ours, threads, batch = OURS[row][route]
                    command = [args.loaders, ours, "--threads", str(threads), "--batch", str(batch)]
                    command += ["--data", folder[row]] if row in folder else []
                else:
                    package = {"torch": "torchvision"}.get(route.split("-")[0], route.split("-")[0])
                    if version(package) is None:
                        missing.append(package)
                        continue
                    command = [sys.executable, __file__, args.loaders, "--one", row, route]
                    command += ["--cifar", args.cifar or "", "--flowers", args.flowers or ""]
                command = [*args.prefix.split(), *command, "--seconds", str(args.seconds)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(f"{row} {route}: {done.stderr.strip()[-800:]}")
                rate = json.loads(done.stdout.strip().splitlines()[-1])["examples_per_second"]
                rates.setdefault(row, {}).setdefault(route, []).append(rate)
                print(json.dumps({"row": row, "route": route, "round": turn, "examples_per_second": round(rate, 1)}),
                      flush=True)
    shutil.rmtree(SHARDS, ignore_errors=True)
    medians = {row: {route: round(statistics.median(all), 1) for route, all in routes.items()}
               for row, routes in rates.items()}
    print(json.dumps({"medians": medians, "rounds": args.rounds, "not installed": sorted(set(missing))}))
    packages = ["torch", "torchvision", "pillow", "webdataset", "spdl", "ffcv", "numpy"]
    print(json.dumps({"versions": {p: version(p) for p in packages}, "python": sys.version.split()[0],
                      "cores": os.cpu_count(), "threads": "the number in each route's name; torch has one a process"}))


if __name__ == "__main__":
    main()
