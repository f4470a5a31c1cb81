"""Pictures of posteriors, through ArviZ plots with matplotlib."""

from .path import plot_path
from .posterior import plot_latent, plot_overlay, plot_rates
from .saving import save_picture, svg_text
from .score import plot_score
from .weights import plot_weights

__all__ = [
    "plot_latent",
    "plot_overlay",
    "plot_path",
    "plot_rates",
    "plot_score",
    "plot_weights",
    "save_picture",
    "svg_text",
]
