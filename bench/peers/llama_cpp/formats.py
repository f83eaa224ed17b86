#!/usr/bin/env python3
"""Makes SmolLM2-135M-Instruct in every format that the speed and quality comparisons use, with llama-quantize."""
import argparse

import llama_tools


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    llama_tools.add_arguments(parser)
    args = parser.parse_args()
    llama_tools.prepare(args)
    for name in llama_tools.SPEED_FORMATS + llama_tools.OTHER_FORMATS:
        print(llama_tools.model_in(name, args.models, args.llama_bin), flush=True)


if __name__ == "__main__":
    main()
