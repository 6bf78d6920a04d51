"""Tables that several layers change, each with one owner module: nobody else writes to them."""
