"""Draws the small images of this folder and writes what Pillow makes of them, as raw RGB.

Needs Pillow and NumPy; run from anywhere. expected.txt: file, height, width, offset in expected.rgb.
"""

import io
import os
import struct
import zlib

import numpy as np
from PIL import Image, ImageFile

os.chdir(os.path.dirname(os.path.abspath(__file__)))
H, W = 37, 53


def scene(h=H, w=W):
    y, x = np.mgrid[0:h, 0:w].astype(np.float64)
    r = 127 + 120 * np.sin(x / 7) * np.cos(y / 9)
    g = 255 * x / max(w - 1, 1)
    b = 255 * y / max(h - 1, 1)
    rgb = np.stack([r, g, b], -1)
    rgb[h // 4 : h // 2, w // 4 : w // 2] = [250, 20, 30]
    return rgb.clip(0, 255).astype(np.uint8)


def png(path, array, depth, color, interlaced=False, extra=()):
    """Writes a PNG of any depth: array [H, W, samples] of values in range of the depth."""
    array = np.asarray(array)
    if array.ndim == 2:
        array = array[..., None]
    h, w, _ = array.shape

    def rows(part):
        out = b""
        for row in part:
            if depth == 16:
                line = row.astype(">u2").tobytes()
            elif depth == 8:
                line = row.astype(np.uint8).tobytes()
            else:
                bits = np.unpackbits(row.reshape(-1, 1).astype(np.uint8), axis=1)[:, 8 - depth :].reshape(-1)
                line = np.packbits(bits).tobytes()
            out += b"\0" + line
        return out

    if interlaced:
        passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
        data = b"".join(rows(array[y::dy, x::dx]) for y, x, dy, dx in passes if array[y::dy, x::dx].size)
    else:
        data = rows(array)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        out.write(chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, int(interlaced))))
        for kind, body in extra:
            out.write(chunk(kind, body))
        out.write(chunk(b"IDAT", zlib.compress(data, 9)))
        out.write(chunk(b"IEND", b""))


rgb = scene()
image = Image.fromarray(rgb)
grey = np.asarray(image.convert("L"))
golden = {}


def jpeg(name, img, **options):
    img.save(name, "JPEG", **options)
    golden[name] = None


jpeg("baseline-420.jpg", image, quality=85, subsampling=2)
jpeg("baseline-422.jpg", image, quality=85, subsampling=1)
jpeg("baseline-444.jpg", image, quality=95, subsampling=0)
jpeg("progressive.jpg", image, quality=85, progressive=True)
jpeg("progressive-restarts.jpg", image, quality=85, progressive=True, restart_marker_blocks=3)
jpeg("baseline-restarts.jpg", image, quality=85, restart_marker_rows=1)
jpeg("grey.jpg", image.convert("L"), quality=85)
jpeg("grey-progressive.jpg", image.convert("L"), quality=85, progressive=True)
jpeg("rgb-stored.jpg", image, quality=90, keep_rgb=True)
jpeg("cmyk.jpg", image.convert("CMYK"), quality=90)
jpeg("cmyk-progressive.jpg", image.convert("CMYK"), quality=90, progressive=True)
jpeg("one-pixel.jpg", Image.fromarray(scene(1, 1)))
jpeg("one-row.jpg", Image.fromarray(scene(1, 40)))
jpeg("one-column.jpg", Image.fromarray(scene(40, 1)))

# Pillow writes CMYK as it is; with the transform flag of the Adobe marker the same data are YCCK.
data = bytearray(open("cmyk.jpg", "rb").read())
at = data.index(b"Adobe")
data[at + 11] = 2
open("ycck.jpg", "wb").write(data)
golden["ycck.jpg"] = None

for value in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = value
    small = Image.fromarray(scene(9, 14))
    small.save(f"turned-{value}.jpg", "JPEG", quality=95, exif=exif.tobytes())
    golden[f"turned-{value}.jpg"] = None
small.save("turned.png", exif=exif.tobytes())
golden["turned.png"] = None

png("rgb8.png", rgb, 8, 2)
png("rgb16.png", rgb.astype(np.uint16) * 257, 16, 2)
png("grey8.png", grey, 8, 0)
png("grey16.png", grey.astype(np.uint16) * 257, 16, 0)
png("grey1.png", grey > 127, 1, 0)
png("grey2.png", grey >> 6, 2, 0)
png("grey4.png", grey >> 4, 4, 0)
png("interlaced.png", rgb, 8, 2, interlaced=True)
png("interlaced4.png", grey >> 4, 4, 0, interlaced=True)
alpha = np.linspace(0, 255, H * W).reshape(H, W, 1).astype(np.uint8)
png("rgba8.png", np.concatenate([rgb, alpha], -1), 8, 6)
png("rgba16.png", np.concatenate([rgb, alpha], -1).astype(np.uint16) * 257, 16, 6)
png("grey-alpha8.png", np.concatenate([grey[..., None], alpha], -1), 8, 4)
for depth in (1, 2, 4, 8):
    colors = min(2**depth, 200)
    palette = (np.arange(3 * colors).reshape(-1, 3) * 71 % 256).astype(np.uint8)
    png(f"palette{depth}.png", grey.astype(int) * (colors - 1) // 255, depth, 3, extra=[(b"PLTE", palette.tobytes())])
png(
    "palette-alpha.png",
    grey.astype(int) * 15 // 255,
    4,
    3,
    extra=[(b"PLTE", bytes(i * 67 % 256 for i in range(48))), (b"tRNS", bytes(range(0, 160, 10)))],
)
for name in sorted(os.listdir(".")):
    if name.endswith(".png"):
        golden[name] = None

# Pillow gives these in 16 bits or clipped, so what is right is computed: value * 255 / 65535, rounded.
golden["grey16.png"] = np.repeat(grey[..., None], 3, -1)
# The colours of transparent pixels as they are stored.
for name in ("rgba8.png", "rgba16.png"):
    golden[name] = rgb

ImageFile.LOAD_TRUNCATED_IMAGES = True
for name, share in (("baseline-420.jpg", 0.7), ("progressive.jpg", 0.8), ("rgb8.png", 0.6)):
    whole = open(name, "rb").read()
    base, kind = name.rsplit(".", 1)
    cut = f"cut-{base}.{kind}"
    open(cut, "wb").write(whole[: int(len(whole) * share)])
    golden[cut] = None

with open("expected.rgb", "wb") as raw, open("expected.txt", "w") as index:
    for name in sorted(golden):
        pixels = golden[name]
        if pixels is None:
            pixels = np.asarray(Image.open(name).convert("RGB"))
        index.write(f"{name} {pixels.shape[0]} {pixels.shape[1]} {raw.tell()}\n")
        raw.write(np.ascontiguousarray(pixels, dtype=np.uint8).tobytes())
    # Reduced scales, as libjpeg has them, under the name of the file and the scale in eighths.
    for name in ("baseline-420.jpg", "baseline-444.jpg", "grey.jpg", "progressive.jpg"):
        for eighths in (1, 2, 4):
            img = Image.open(name)
            h, w = -(-img.height * eighths // 8), -(-img.width * eighths // 8)
            img.draft(img.mode, (img.width * eighths // 8, img.height * eighths // 8))
            pixels = np.asarray(img.convert("RGB"))
            assert pixels.shape[:2] == (h, w), (name, eighths, pixels.shape)
            index.write(f"{name}/{eighths} {h} {w} {raw.tell()}\n")
            raw.write(pixels.tobytes())
    # Scaled to cover a square, and the middle kept.
    for side in (16, 37, 64):
        short = min(H, W)
        box = ((W - short) / 2, (H - short) / 2, (W + short) / 2, (H + short) / 2)
        pixels = np.asarray(image.resize((side, side), Image.BILINEAR, box=box))
        index.write(f"rgb8.png/cover{side} {side} {side} {raw.tell()}\n")
        raw.write(pixels.tobytes())
