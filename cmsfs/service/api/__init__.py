"""What every operation shares: route declarations, paging, pages."""
