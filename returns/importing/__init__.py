"""Files of orders from elsewhere, each format mapped to the order body of the API. Pure."""
