"""What each user has for themselves: favourites, and what they last worked on."""
