"""Reports as one HTML file each: no script, nothing from outside, plots as SVG."""
