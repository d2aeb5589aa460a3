"""Callbacks for training frameworks, one module for each framework; a module imports its framework, and this package none.

- `shoal.integrations.lightning`: `ShoalCallback` for the Trainer of Lightning 2;
- `shoal.integrations.transformers`: `ShoalCallback` for the Trainer of Hugging Face's transformers.
"""
