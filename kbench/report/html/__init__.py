"""Reports as one HTML file each: no scripts, no external files, plots as SVG."""
