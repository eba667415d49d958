"""Web applications inside jobs, such as JupyterLab, which people open on an origin of their own."""
