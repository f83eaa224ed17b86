"""The formats of SmolLM2 that are measured, most exact first."""
FORMATS = ["f32", "f16", "bf16", "q8_0", "q6_k", "q5_k_m", "q5_1", "q5_0", "q4_k_m", "q4_1", "q4_0", "iq4_nl", "iq4_xs",
           "q3_k_m", "q2_k"]
