"""What the emulated cards get wrong of AMD's instructions, and the right of it.

The semantics of the instructions are tinygrad's (test/mockgpu/amd, commit a9069c17). `corrected` makes a folder that
stands for a checkout: links to its files, and a corrected copy of those named here. The checkout itself stays as it is.
Each correction says what AMD's ISA documents have instead, and the instructions that show it.
"""
import collections
import pathlib

EMULATOR = "test/mockgpu/amd/emu.py"
READER = "test/mockgpu/amd/pcode.py"
Correction = collections.namedtuple("Correction", "file wrong right")

# CDNA 3 ISA, microcode formats, DS: with bit 25 (ACC) the registers of data are accumulation VGPRs, those that are stored
# (DATA0, DATA1) as well as those that are loaded (VDST). The emulator heeds it for loads alone.
#   v_accvgpr_write_b32 a10, 1; v_mov_b32 v10, 9; ds_write_b32 v1, a10      stores 9
ACCUMULATION = [
    Correction(EMULATOR, "  use_acc = bool(_iattr(inst, 'acc'))\n  mem = ctx.lds",
               "  use_acc = bool(_iattr(inst, 'acc'))\n  read_data = ctx.raccvgpr_dyn if use_acc else ctx.rvgpr_dyn\n  mem = ctx.lds"),
    Correction(EMULATOR, "ctx.rvgpr_dyn(vdata_reg", "read_data(vdata_reg"),
    Correction(EMULATOR, "ctx.rvgpr_dyn(data1_reg", "read_data(data1_reg"),
]

# CDNA 3 ISA, microcode formats, VOP1, VOP2 and VOPC: VDST, VSRC1 and the VGPRs of SRC0 are numbers from 0 to 255, for operands
# of 16 bits too. That bit 7 says which half of one of 128 registers is meant came with RDNA 3, whose waves of 32 the emulator
# can tell by their size.
#   v_mov_b32 v200, 0x3c00; v_mov_b32 v72, 0; v_mul_f16_e32 v210, 2.0, v200      leaves v210 as it was, and multiplies v72
#   v_cvt_f32_f16_e32 v5, v200                                                   converts the upper half of v72
HALVES = [
    Correction(EMULATOR, "bits['d'] == 16 and (vdst_reg >= _c(128))",
               "bits['d'] == 16 and ctx.wave_size == 32 and (vdst_reg >= _c(128))"),
    Correction(EMULATOR, "bits['s0'] == 16 and (vsrc1_reg >= _c(128))",
               "bits['s0'] == 16 and ctx.wave_size == 32 and (vsrc1_reg >= _c(128))"),
    Correction(EMULATOR, "if bits['s0'] == 16:  # src0 >= 384", "if bits['s0'] == 16 and ctx.wave_size == 32:  # src0 >= 384"),
    Correction(EMULATOR, "    if bits['s0'] == 16:\n      vsrc1_hi = vsrc1_off >= _c(128)",
               "    if bits['s0'] == 16 and ctx.wave_size == 32:\n      vsrc1_hi = vsrc1_off >= _c(128)"),
]

# RDNA 3, RDNA 4 and CDNA 3 ISA, V_DIV_FIXUP_F16, the end of a division of halves: -INF.f16 and 16'F(0xfe00) are infinity and a
# NaN of 16 bits. The emulator's reader of the documents' text fails at the first and takes 64 bits for the second, so that it
# has no such instruction.
#   v_div_fixup_f16 v0, v1, v2, v3      ends the program
DIVISION = [
    Correction(READER, "  if dt == dtypes.half: return v.cast(dtypes.uint16)",
               "  if dt == dtypes.half and v.dtype == dtypes.float64: return v.cast(dt)\n"
               "  if dt == dtypes.half: return v.cast(dtypes.uint16)"),
    Correction(READER, "        return inner.bitcast(dt)",
               "        return inner.cast(dtypes.uint16).bitcast(dt) if dt == dtypes.half else inner.bitcast(dt)"),
]

CORRECTIONS = ACCUMULATION + HALVES + DIVISION


class OtherCheckout(Exception):
    """The text to be corrected is not there."""


def corrected_texts(checkout, corrections):
    """File -> its text with all corrections."""
    texts = {}
    for c in corrections:
        file = checkout / c.file
        text = texts.get(c.file) or (file.read_text() if file.is_file() else "")
        if c.wrong not in text:
            raise OtherCheckout(f"{file} has no \"{c.wrong.strip().splitlines()[0]}\" to correct")
        texts[c.file] = text.replace(c.wrong, c.right)
    return texts


def corrected(checkout, folder, corrections=CORRECTIONS):
    """Makes `folder`, which is there for this alone, stand for `checkout`."""
    texts = corrected_texts(checkout, corrections)
    # Folders on the way to a corrected file are folders, all that lies beside them are links.
    own = {str(parent) for name in texts for parent in pathlib.PurePath(name).parents}
    for parent in sorted(own):
        (folder / parent).mkdir(parents=True, exist_ok=True)
        for entry in (checkout / parent).iterdir():
            name = str(entry.relative_to(checkout))
            if name not in own and name not in texts and entry.name != "__pycache__":
                (folder / name).unlink(missing_ok=True)
                (folder / name).symlink_to(entry)
    for name, text in texts.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(text)
