"""Random calls of everything public: arguments (`values`) and what is called (`calls`). ../fuzz_calls.py runs them."""
