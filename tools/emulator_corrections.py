"""Corrections of the emulator of AMD cards: instructions that it computes wrongly, and slow searches.

The semantics of most instructions are tinygrad's (test/mockgpu/amd, commit a9069c17), of the others the emulator's
(amd_emulator/wave_runner.c). `corrected` makes a folder to use instead of a checkout of one of the two: links to its
files, and corrected copies of those named here. The checkout is not changed.
Each correction quotes AMD's ISA document, and has instructions that show the error.
"""
import collections
import pathlib

EMULATOR = "test/mockgpu/amd/emu.py"
READER = "test/mockgpu/amd/pcode.py"
DECODER = "tinygrad/renderer/amd/__init__.py"
Correction = collections.namedtuple("Correction", "file wrong right")

# CDNA 3 ISA, microcode formats, DS: with bit 25 (ACC) the registers of data are accumulation VGPRs, those that are stored
# (DATA0, DATA1) as well as those that are loaded (VDST). The emulator applies it to loads alone.
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
F16 = [
    Correction(EMULATOR, "bits['d'] == 16 and (vdst_reg >= _c(128))",
               "bits['d'] == 16 and ctx.wave_size == 32 and (vdst_reg >= _c(128))"),
    Correction(EMULATOR, "bits['s0'] == 16 and (vsrc1_reg >= _c(128))",
               "bits['s0'] == 16 and ctx.wave_size == 32 and (vsrc1_reg >= _c(128))"),
    Correction(EMULATOR, "if bits['s0'] == 16:  # src0 >= 384", "if bits['s0'] == 16 and ctx.wave_size == 32:  # src0 >= 384"),
    Correction(EMULATOR, "    if bits['s0'] == 16:\n      vsrc1_hi = vsrc1_off >= _c(128)",
               "    if bits['s0'] == 16 and ctx.wave_size == 32:\n      vsrc1_hi = vsrc1_off >= _c(128)"),
]

# RDNA 3, RDNA 4 and CDNA 3 ISA, V_DIV_FIXUP_F16, the end of an f16 division: -INF.f16 and 16'F(0xfe00) are infinity and a
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

# RDNA 3, RDNA 4 and CDNA 3 ISA, V_RNDNE_F32: "round to nearest even", which the documents' text sketches as
# floor(S0.f32 + 0.5F), minus one for ties. That sum is itself rounded, and has lost the sign of a zero. The instruction
# computes IEEE 754's roundToIntegralTiesToEven, whose zeros have their operand's sign:
# LLVM makes rintf and roundevenf of it and of nothing else, and gives a sign by copysign where it takes other instructions.
#   v_rndne_f32 v1, -0.5          gives 0, and not -0
#   v_rndne_f32 v1, 0x3effffff    gives 1 of the largest number below a half, and not 0
#   v_rndne_f32 v1, 8388609.0     gives 8388610
ROUNDING = [
    Correction(f"tinygrad/runtime/autogen/amd/{name}/str_pcode.py",
               r"D0.f32 = floor(S0.f32 + 0.5F);\nif (isEven(64'F(floor(S0.f32))) && (fract(S0.f32) == 0.5F)) then\nD0.f32 -= 1.0F\nendif",
               r"tmp = floor(S0.f32);\nif ((S0.f32 - tmp > 0.5F) || ((S0.f32 - tmp == 0.5F) && !isEven(64'F(tmp)))) then\ntmp += 1.0F\n"
               r"endif;\nD0.f32 = sign(S0.f32) ? -abs(tmp) : abs(tmp)")
    for name in ("rdna3", "rdna4", "cdna")]

# RDNA 3, RDNA 4 and CDNA 3 ISA, DS_LOAD_U16_D16, _D16_HI and their kind (DS_READ_... on CDNA): one half of the register is loaded, "the
# other is preserved". The emulator has loads from LDS write the low half whichever it is, and clear the other.
#   v_mov_b32 v2, 0x11112222; ds_load_u16_d16_hi v2, v1      leaves 0x0000c0d0 of 0xc0d0 in LDS, and not 0xc0d02222
LOADED_F16 = [
    Correction(EMULATOR, "        return _write_val(bit_width, val, _wdata, vdst_reg + _c(dword_idx), lane, exec_mask)\n",
               "        if bit_width == 16:\n"
               "          old = (ctx.raccvgpr_dyn if use_acc else ctx.rvgpr_dyn)(vdst_reg, lane)\n"
               "          low = int(m.group(2))\n"
               "          val = (old & _c(0xFFFF0000 >> low)) | ((val.cast(dtypes.uint32) & _c(0xFFFF)) << _c(low))\n"
               "        return _write_val(max(bit_width, 32), val, _wdata, vdst_reg + _c(dword_idx), lane, exec_mask)\n"),
]

# RDNA 3, RDNA 4 and CDNA 3 ISA, DS_PERMUTE_B32 and DS_BPERMUTE_B32: "if EXEC[i].u1 then VGPR[i][VDST] = tmp[i]". The emulator clears
# the register of the other lanes.
#   v_mov_b32 v2, 7; s_mov_b32 exec_lo, 2; ds_bpermute_b32 v2, v1, v2      clears v2 of all lanes but one
PERMUTED = [
    Correction(EMULATOR,
               "    stores = [ctx.vgpr.index(val[0]).store(val[1].cast(dtypes.uint32)) for dest, val in assigns if dest.startswith('VGPR[')]\n",
               "    def permuted(at, value):\n"
               "      own = ctx.vgpr.index(at)\n"
               "      return own.store(_lane_active(exec_mask, at.cast(dtypes.uint32) % _c(ctx.wave_size)).where(value.cast(dtypes.uint32), own))\n"
               "    stores = [permuted(*val) for dest, val in assigns if dest.startswith('VGPR[')]\n"),
]

# RDNA 3, RDNA 4 and CDNA 3 ISA, DS_BPERMUTE_B32 and DS_PERMUTE_B32: the lane is (address + offset) / 4 "% 32", or "% 64" of a
# wave's 64 lanes: "high-order bits are ignored". The emulator's reader of the documents' text has no remainder and leaves this
# one out: a lane beyond the last one does not exist. rocBLAS's f16 GEMMs on gfx1100 rely on it
# where they move the columns at the edge of a matrix from the upper lanes to the lower ones.
#   v_lshlrev_b32 v1, 2, lane; ds_bpermute_b32 v2, v1, v2 offset:64      clears v2 of lanes 16 to 31
REMAINDERS = [
    Correction(READER, "('*', '/'), ('**',)]", "('*', '/', '%'), ('**',)]"),
    Correction(READER, "      case '*' | '/':\n",
               "      case '%':\n        if right.op == Ops.CONST and right.val & (right.val - 1) == 0: return left & (right.val - 1)\n"
               "        return left % right\n      case '*' | '/':\n"),
]

# RDNA's and CDNA's buffer instructions, range checking of raw buffers: what is out of range is offset + bytes > NumRecords
# - SGPR offset, where offset is the sum of the instruction's and the VGPR's (AMD's words on OOB_SELECT = 3:
# ROCm/rocMLIR, pull request 678; that the difference does not fall below 0: llvm/llvm-project, 169230). The emulator leaves
# the SGPR's offset out. rocBLAS's products of f32 on gfx1100 rely on it at the edge of a matrix:
#   buffer_load_b32 v41, v37, s[8:11], s31 offen      reads behind the matrix, and not 0
BUFFERS = [Correction("amd_emulator/wave_runner.c", "o + step <= records;", "o + step + soffset <= records;")]

# Vega ISA, "Sub-Dword Addressing (SDWA)": SRC0_NEG, SRC0_ABS and SRC1's negate a float operand and take its size, after a
# part of the register was selected. GFX9 has the encoding, CDNA 3 and 4 among it. The emulator leaves these bits out.
#   v_mov_b32 v6, 0x3c000000; v_cvt_f32_f16_sdwa v12, -v6 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1      gives 1
MODIFIERS = [
    Correction(EMULATOR, "def _sdwa_write(",
               "def _sdwa_signed(val, inst, ctx, pcode, n):\n"
               "  half = f'S{n}.f16' in pcode\n"
               "  if not half and f'S{n}.f32' not in pcode: return val\n"
               "  sign = 0x8000 if half else 0x80000000\n"
               "  size, negative = (ctx.inst_field(getattr(type(inst), f'src{n}_{name}')) for name in ('abs', 'neg'))\n"
               "  val = size.ne(_c(0)).where(val & _c(sign ^ 0xFFFFFFFF), val)\n"
               "  return negative.ne(_c(0)).where(val ^ _c(sign), val)\n\ndef _sdwa_write("),
    Correction(EMULATOR, "= _sdwa_select(s0_raw, src0_sel, src0_sext)",
               "= _sdwa_signed(_sdwa_select(s0_raw, src0_sel, src0_sext), inst, ctx, pcode, 0)"),
    Correction(EMULATOR, "= _sdwa_select(s1_raw, src1_sel, src1_sext)",
               "= _sdwa_signed(_sdwa_select(s1_raw, src1_sel, src1_sext), inst, ctx, pcode, 1)"),
]

# Nothing is wrong with these, but a program that runs a few hundred kernels spends nearly all of its time here: forms of
# instructions are looked for in sequence and translated again by each program (tools/emulator_translations.py does
# it otherwise), and classes of instructions are tried field by field, where their fixed bits in the first word decide.
TRANSLATIONS = "test/mockgpu/amd/translations.py"
SPEED = [
    Correction(EMULATOR, "_canonical_runner_cache: list[",
               "from test.mockgpu.amd.translations import Forms\n"
               "_forms = Forms(lambda elf: Device['CPU'].runtime(elf))\n_canonical_runner_cache: list["),
    Correction(EMULATOR, "  for inst_type, base, mask, size, entry in _canonical_runner_cache:\n"
               "    if type(inst) is inst_type and inst_size == size and (inst_int & mask) == base: return entry\n",
               "  kind = (type(inst).__module__, type(inst).__name__, inst_size)\n"
               "  if (entry := _forms.find(kind, inst_int)) is not None: return entry\n"),
    Correction(EMULATOR, "    prg = to_program(sink, Device['CPU'].renderer)\n    runtime = get_runtime('CPU', prg)\n"
               "  _canonical_runner_cache.append((type(inst), base, mask, size, (prg, runtime)))\n  return prg, runtime\n",
               "    return _forms.make(kind, mask, base, lambda: to_program(sink, Device['CPU'].renderer))\n"),
    Correction(DECODER, "    if _matches(data, cls): return cls\n",
               "    mask, value = _fixed_bits(cls)\n"
               "    if (int.from_bytes(data[:4], 'little') & mask) == value and _matches(data, cls): return cls\n"),
    Correction(DECODER, "def detect_format(",
               "_first_words: dict[type[Inst], tuple[int, int]] = {}\n"
               "def _fixed_bits(cls):\n"
               "  if cls not in _first_words:\n"
               "    fields = [f for _, f in cls._fields if isinstance(f, FixedBitField) and f.lo < 32]\n"
               "    _first_words[cls] = (sum(f.mask << f.lo for f in fields), sum(f.default << f.lo for f in fields))\n"
               "  return _first_words[cls]\n\ndef detect_format("),
]
ADDED = {TRANSLATIONS: pathlib.Path(__file__).resolve().parent / "emulator_translations.py"}

CORRECTIONS = ACCUMULATION + F16 + DIVISION + ROUNDING + LOADED_F16 + PERMUTED + REMAINDERS + MODIFIERS + SPEED
EMULATOR_CORRECTIONS = BUFFERS


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


def corrected(checkout, folder, corrections=CORRECTIONS, added=ADDED):
    """Makes `folder`, which must hold nothing else, a corrected copy of `checkout`."""
    texts = {**corrected_texts(checkout, corrections), **{name: file.read_text() for name, file in added.items()}}
    # Folders on the path of a corrected file are folders, all other entries are links.
    own = {str(parent) for name in texts for parent in pathlib.PurePath(name).parents}
    for parent in sorted(own):
        if parent != "." and (folder / parent).is_symlink():  # nothing below it was corrected before
            (folder / parent).unlink()
        (folder / parent).mkdir(parents=True, exist_ok=True)
        for entry in (checkout / parent).iterdir():
            name = str(entry.relative_to(checkout))
            link = folder / name
            if name in own or name in texts or entry.name == "__pycache__" or (link.is_symlink() and link.readlink() == entry):
                continue
            link.unlink(missing_ok=True)
            link.symlink_to(entry)
    for name, text in texts.items():
        file = folder / name
        if file.is_symlink():
            file.unlink()
        if not file.is_file() or file.read_text() != text:  # keeps the time of an unchanged file, for make
            file.write_text(text)
